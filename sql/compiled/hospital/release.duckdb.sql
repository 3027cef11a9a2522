-- The release of plan 58c86ff5ad542639: full_domain, admitted 2, age 2, sex 0, zip 1.

CREATE TEMPORARY TABLE sqlanon_search_cells_1 AS
SELECT
  "age" AS c1,
  "zip" AS c2,
  "sex" AS c3,
  "admitted" AS c4,
  "disease" AS original,
  COUNT(*) AS records
FROM (
  SELECT
    *
  FROM "patients" AS source
) AS source
GROUP BY
  "age",
  "zip",
  "sex",
  "admitted",
  "disease";

CREATE TEMPORARY TABLE sqlanon_search_dictionary_1 AS
SELECT
  d.original,
  d.records,
  d.n0,
  d.n1,
  d.n2,
  d.n3,
  d.missing,
  DENSE_RANK() OVER (PARTITION BY d.n1 ORDER BY d.n0 ASC NULLS FIRST) - 1 AS r0,
  DENSE_RANK() OVER (PARTITION BY d.n2 ORDER BY d.n1 ASC NULLS FIRST) - 1 AS r1,
  DENSE_RANK() OVER (PARTITION BY d.n3 ORDER BY d.n2 ASC NULLS FIRST) - 1 AS r2,
  DENSE_RANK() OVER (ORDER BY d.n3 ASC NULLS FIRST) - 1 AS r3,
  DENSE_RANK() OVER (ORDER BY d.original ASC NULLS FIRST) AS position,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n1)
  END AS DOUBLE) AS f1,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n2)
  END AS DOUBLE) AS f2,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n3)
  END AS DOUBLE) AS f3,
  COUNT(d.original) OVER () AS domain
FROM (
  SELECT
    v.original,
    v.records,
    COALESCE(CAST(v.original AS TEXT), '∅ NULL') AS n0,
    COALESCE(
      CAST(CASE
        WHEN (
          v.original - v.original
        ) <> 0
        THEN 'not a number'
        WHEN FLOOR(v.original) < 0
        THEN '<0'
        WHEN FLOOR(v.original) >= 90
        THEN '>=90'
        ELSE '[' || CAST(CAST(FLOOR(v.original) AS BIGINT) - (
          CAST(FLOOR(v.original) AS BIGINT) % 5
        ) AS TEXT) || ', ' || CAST(CAST(FLOOR(v.original) AS BIGINT) - (
          CAST(FLOOR(v.original) AS BIGINT) % 5
        ) + 5 AS TEXT) || ')'
      END AS TEXT),
      '∅ NULL'
    ) AS n1,
    COALESCE(
      CAST(CASE
        WHEN (
          v.original - v.original
        ) <> 0
        THEN 'not a number'
        WHEN FLOOR(v.original) < 0
        THEN '<0'
        WHEN FLOOR(v.original) >= 90
        THEN '>=90'
        ELSE '[' || CAST(CAST(FLOOR(v.original) AS BIGINT) - (
          CAST(FLOOR(v.original) AS BIGINT) % 10
        ) AS TEXT) || ', ' || CAST(CAST(FLOOR(v.original) AS BIGINT) - (
          CAST(FLOOR(v.original) AS BIGINT) % 10
        ) + 10 AS TEXT) || ')'
      END AS TEXT),
      '∅ NULL'
    ) AS n2,
    COALESCE(
      CAST(CASE
        WHEN (
          v.original - v.original
        ) <> 0
        THEN 'not a number'
        WHEN FLOOR(v.original) < 0
        THEN '<0'
        WHEN FLOOR(v.original) >= 90
        THEN '>=90'
        ELSE '[' || CAST(CAST(FLOOR(v.original) AS BIGINT) - (
          CAST(FLOOR(v.original) AS BIGINT) % 20
        ) AS TEXT) || ', ' || CAST(LEAST(
          CAST(FLOOR(v.original) AS BIGINT) - (
            CAST(FLOOR(v.original) AS BIGINT) % 20
          ) + 20,
          90
        ) AS TEXT) || ')'
      END AS TEXT),
      '∅ NULL'
    ) AS n3,
    0 AS missing
  FROM (
    SELECT
      c1 AS original,
      CAST(SUM(records) AS BIGINT) AS records
    FROM sqlanon_search_cells_1
    GROUP BY
      c1
  ) AS v
) AS d;

CREATE TEMPORARY TABLE sqlanon_search_dictionary_2 AS
SELECT
  d.original,
  d.records,
  d.n0,
  d.n1,
  d.n2,
  d.n3,
  d.n4,
  d.missing,
  DENSE_RANK() OVER (PARTITION BY d.n1 ORDER BY d.n0 ASC NULLS FIRST) - 1 AS r0,
  DENSE_RANK() OVER (PARTITION BY d.n2 ORDER BY d.n1 ASC NULLS FIRST) - 1 AS r1,
  DENSE_RANK() OVER (PARTITION BY d.n3 ORDER BY d.n2 ASC NULLS FIRST) - 1 AS r2,
  DENSE_RANK() OVER (PARTITION BY d.n4 ORDER BY d.n3 ASC NULLS FIRST) - 1 AS r3,
  DENSE_RANK() OVER (ORDER BY d.n4 ASC NULLS FIRST) - 1 AS r4,
  DENSE_RANK() OVER (ORDER BY d.original ASC NULLS FIRST) AS position,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n1)
  END AS DOUBLE) AS f1,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n2)
  END AS DOUBLE) AS f2,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n3)
  END AS DOUBLE) AS f3,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n4)
  END AS DOUBLE) AS f4,
  COUNT(d.original) OVER () AS domain
FROM (
  SELECT
    v.original,
    v.records,
    COALESCE(CAST(v.original AS TEXT), '∅ NULL') AS n0,
    COALESCE(
      CAST(SUBSTRING(CAST(v.original AS TEXT), 1, GREATEST(LENGTH(CAST(v.original AS TEXT)) - 1, 0)) || SUBSTRING('*', 1, LENGTH(CAST(v.original AS TEXT))) AS TEXT),
      '∅ NULL'
    ) AS n1,
    COALESCE(
      CAST(SUBSTRING(CAST(v.original AS TEXT), 1, GREATEST(LENGTH(CAST(v.original AS TEXT)) - 2, 0)) || SUBSTRING('**', 1, LENGTH(CAST(v.original AS TEXT))) AS TEXT),
      '∅ NULL'
    ) AS n2,
    COALESCE(
      CAST(SUBSTRING(CAST(v.original AS TEXT), 1, GREATEST(LENGTH(CAST(v.original AS TEXT)) - 3, 0)) || SUBSTRING('***', 1, LENGTH(CAST(v.original AS TEXT))) AS TEXT),
      '∅ NULL'
    ) AS n3,
    COALESCE(
      CAST(SUBSTRING(CAST(v.original AS TEXT), 1, GREATEST(LENGTH(CAST(v.original AS TEXT)) - 4, 0)) || SUBSTRING('****', 1, LENGTH(CAST(v.original AS TEXT))) AS TEXT),
      '∅ NULL'
    ) AS n4,
    0 AS missing
  FROM (
    SELECT
      c2 AS original,
      CAST(SUM(records) AS BIGINT) AS records
    FROM sqlanon_search_cells_1
    GROUP BY
      c2
  ) AS v
) AS d;

CREATE TEMPORARY TABLE sqlanon_search_lookup_1 AS
SELECT
  CAST(v0 AS TEXT) AS level_0,
  CAST(v1 AS TEXT) AS level_1
FROM (VALUES
  ('female', '*'),
  ('male', '*')) AS listed(v0, v1);

CREATE TEMPORARY TABLE sqlanon_search_dictionary_3 AS
SELECT
  d.original,
  d.records,
  d.n0,
  d.missing,
  DENSE_RANK() OVER (ORDER BY d.n0 ASC NULLS FIRST) - 1 AS r0,
  DENSE_RANK() OVER (ORDER BY d.original ASC NULLS FIRST) AS position,
  (
    SELECT
      COUNT(*)
    FROM sqlanon_search_lookup_1
  ) AS domain
FROM (
  SELECT
    v.original,
    v.records,
    COALESCE(CAST(v.original AS TEXT), '∅ NULL') AS n0,
    CASE WHEN l.level_0 IS NULL AND NOT v.original IS NULL THEN 1 ELSE 0 END AS missing
  FROM (
    SELECT
      c3 AS original,
      CAST(SUM(records) AS BIGINT) AS records
    FROM sqlanon_search_cells_1
    GROUP BY
      c3
  ) AS v
  LEFT JOIN sqlanon_search_lookup_1 AS l
    ON l.level_0 = CAST(v.original AS TEXT)
) AS d;

CREATE TEMPORARY TABLE sqlanon_search_dictionary_4 AS
SELECT
  d.original,
  d.records,
  d.n0,
  d.n1,
  d.n2,
  d.n3,
  d.n4,
  d.missing,
  DENSE_RANK() OVER (PARTITION BY d.n1 ORDER BY d.n0 ASC NULLS FIRST) - 1 AS r0,
  DENSE_RANK() OVER (PARTITION BY d.n2 ORDER BY d.n1 ASC NULLS FIRST) - 1 AS r1,
  DENSE_RANK() OVER (PARTITION BY d.n3 ORDER BY d.n2 ASC NULLS FIRST) - 1 AS r2,
  DENSE_RANK() OVER (PARTITION BY d.n4 ORDER BY d.n3 ASC NULLS FIRST) - 1 AS r3,
  DENSE_RANK() OVER (ORDER BY d.n4 ASC NULLS FIRST) - 1 AS r4,
  DENSE_RANK() OVER (ORDER BY d.original ASC NULLS FIRST) AS position,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n1)
  END AS DOUBLE) AS f1,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n2)
  END AS DOUBLE) AS f2,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n3)
  END AS DOUBLE) AS f3,
  CAST(CASE
    WHEN d.original IS NULL
    THEN 1
    ELSE COUNT(d.original) OVER (PARTITION BY d.n4)
  END AS DOUBLE) AS f4,
  COUNT(d.original) OVER () AS domain
FROM (
  SELECT
    v.original,
    v.records,
    COALESCE(CAST(v.original AS TEXT), '∅ NULL') AS n0,
    COALESCE(
      CAST(CASE
        WHEN NOT EXTRACT(MONTH FROM v.original) IS NULL
        THEN CAST(CAST(EXTRACT(YEAR FROM v.original) AS INT) AS TEXT) || '-' || LPAD(CAST(CAST(EXTRACT(MONTH FROM v.original) AS INT) AS TEXT), 2, '0')
        WHEN NOT v.original IS NULL
        THEN 'not a date'
      END AS TEXT),
      '∅ NULL'
    ) AS n1,
    COALESCE(
      CAST(CASE
        WHEN NOT EXTRACT(MONTH FROM v.original) IS NULL
        THEN CAST(CAST(EXTRACT(YEAR FROM v.original) AS INT) AS TEXT) || '-Q' || CAST(CAST(EXTRACT(QUARTER FROM v.original) AS INT) AS TEXT)
        WHEN NOT v.original IS NULL
        THEN 'not a date'
      END AS TEXT),
      '∅ NULL'
    ) AS n2,
    COALESCE(
      CAST(CASE
        WHEN NOT EXTRACT(MONTH FROM v.original) IS NULL
        THEN CAST(CAST(EXTRACT(YEAR FROM v.original) AS INT) AS TEXT)
        WHEN NOT v.original IS NULL
        THEN 'not a date'
      END AS TEXT),
      '∅ NULL'
    ) AS n3,
    COALESCE(
      CAST(CASE
        WHEN NOT EXTRACT(MONTH FROM v.original) IS NULL
        THEN CAST(CAST(FLOOR(EXTRACT(YEAR FROM v.original) / 10.0) * 10 AS INT) AS TEXT) || 's'
        WHEN NOT v.original IS NULL
        THEN 'not a date'
      END AS TEXT),
      '∅ NULL'
    ) AS n4,
    0 AS missing
  FROM (
    SELECT
      c4 AS original,
      CAST(SUM(records) AS BIGINT) AS records
    FROM sqlanon_search_cells_1
    GROUP BY
      c4
  ) AS v
) AS d;

CREATE TEMPORARY TABLE sqlanon_search_totals_1 AS
SELECT
  ROW_NUMBER() OVER (ORDER BY original ASC NULLS FIRST) AS value,
  CAST(original AS TEXT) AS label,
  CAST(NULL AS DOUBLE) AS number,
  records,
  original
FROM (
  SELECT
    original,
    CAST(SUM(records) AS BIGINT) AS records
  FROM sqlanon_search_cells_1
  GROUP BY
    original
) AS counted;

CREATE TEMPORARY TABLE sqlanon_search_compressed_1 AS
SELECT
  CAST(d1.code + d2.code + d3.code + d4.code AS BIGINT) AS k1,
  tv1.value AS v1,
  CAST(c.records AS INT) AS n,
  d1.f1 AS f1_1,
  d1.f2 AS f1_2,
  d1.f3 AS f1_3,
  d2.f1 AS f2_1,
  d2.f2 AS f2_2,
  d2.f3 AS f2_3,
  d2.f4 AS f2_4,
  d4.f1 AS f4_1,
  d4.f2 AS f4_2,
  d4.f3 AS f4_3,
  d4.f4 AS f4_4
FROM sqlanon_search_cells_1 AS c
JOIN (
  SELECT
    original,
    CAST(r0 AS BIGINT) * CAST(1 AS BIGINT) + CAST(r1 AS BIGINT) * CAST(8 AS BIGINT) + CAST(r2 AS BIGINT) * CAST(16 AS BIGINT) + CAST(r3 AS BIGINT) * CAST(32 AS BIGINT) AS code,
    f1,
    f2,
    f3
  FROM sqlanon_search_dictionary_1
) AS d1
  ON c.c1 IS NOT DISTINCT FROM d1.original
JOIN (
  SELECT
    original,
    CAST(r0 AS BIGINT) * CAST(256 AS BIGINT) + CAST(r4 AS BIGINT) * CAST(1024 AS BIGINT) AS code,
    f1,
    f2,
    f3,
    f4
  FROM sqlanon_search_dictionary_2
) AS d2
  ON c.c2 IS NOT DISTINCT FROM d2.original
JOIN (
  SELECT
    original,
    CAST(r0 AS BIGINT) * CAST(4096 AS BIGINT) AS code
  FROM sqlanon_search_dictionary_3
) AS d3
  ON c.c3 IS NOT DISTINCT FROM d3.original
JOIN (
  SELECT
    original,
    CAST(r0 AS BIGINT) * CAST(8192 AS BIGINT) + CAST(r1 AS BIGINT) * CAST(262144 AS BIGINT) + CAST(r2 AS BIGINT) * CAST(1048576 AS BIGINT) AS code,
    f1,
    f2,
    f3,
    f4
  FROM sqlanon_search_dictionary_4
) AS d4
  ON c.c4 IS NOT DISTINCT FROM d4.original
JOIN sqlanon_search_totals_1 AS tv1
  ON c.original IS NOT DISTINCT FROM tv1.original;

CREATE TEMPORARY TABLE sqlanon_search_lookup_2 AS
SELECT
  CAST(v0 AS TEXT) AS level_0,
  CAST(v1 AS TEXT) AS level_1,
  CAST(v2 AS TEXT) AS level_2
FROM (VALUES
  ('influenza', 'infectious', 'any'),
  ('hepatitis', 'infectious', 'any'),
  ('HIV', 'infectious', 'any'),
  ('hypertension', 'chronic', 'any'),
  ('diabetes', 'chronic', 'any'),
  ('asthma', 'chronic', 'any'),
  ('migraine', 'chronic', 'any'),
  ('cancer', 'grave', 'any'),
  ('depression', 'grave', 'any'),
  ('appendicitis', 'acute', 'any')) AS listed(v0, v1, v2);

CREATE TEMPORARY TABLE sqlanon_search_taxonomy_1 AS
SELECT
  t.value,
  0 AS level,
  COALESCE(CAST(t.label AS TEXT), '∅ NULL') AS node
FROM sqlanon_search_totals_1 AS t
LEFT JOIN sqlanon_search_lookup_2 AS l
  ON l.level_0 = t.label
UNION ALL
SELECT
  t.value,
  1 AS level,
  COALESCE(CAST(l.level_1 AS TEXT), '∅ NULL') AS node
FROM sqlanon_search_totals_1 AS t
LEFT JOIN sqlanon_search_lookup_2 AS l
  ON l.level_0 = t.label
UNION ALL
SELECT
  t.value,
  2 AS level,
  COALESCE(CAST('any' AS TEXT), '∅ NULL') AS node
FROM sqlanon_search_totals_1 AS t
LEFT JOIN sqlanon_search_lookup_2 AS l
  ON l.level_0 = t.label;

CREATE TEMPORARY TABLE sqlanon_search_broken_1 AS
WITH class_sizes AS (
  SELECT
    k1 & CAST(3153136 AS BIGINT) AS class_id,
    CAST(SUM(n) AS BIGINT) AS records,
    CAST(SUM(n) AS BIGINT) AS rows_
  FROM sqlanon_search_compressed_1
  GROUP BY
    k1 & CAST(3153136 AS BIGINT)
), class_values_1 AS (
  SELECT
    k1 & CAST(3153136 AS BIGINT) AS class_id,
    v1 AS value,
    CAST(SUM(n) AS BIGINT) AS records,
    CASE
      WHEN v1 IN (
        SELECT
          value
        FROM sqlanon_search_totals_1
        WHERE
          label IS NULL
      )
      THEN 0
      ELSE 1
    END AS known
  FROM sqlanon_search_compressed_1
  GROUP BY
    k1 & CAST(3153136 AS BIGINT),
    v1
), result_1 AS (
  SELECT
    class_id,
    records AS measured,
    CASE WHEN NOT records < 5 THEN 0 ELSE 1 END AS broken
  FROM class_sizes
), result_2 AS (
  SELECT
    class_id,
    measured,
    CASE WHEN NOT measured < 3 THEN 0 ELSE 1 END AS broken
  FROM (
    SELECT
      class_id,
      CAST(SUM(known) AS BIGINT) AS measured
    FROM class_values_1
    GROUP BY
      class_id
  ) AS diversity
), result_3 AS (
  WITH sizes AS (
    SELECT
      class_id,
      CAST(SUM(records) AS DOUBLE) AS records
    FROM class_values_1
    GROUP BY
      class_id
  ), nodes /* The least of its values stands for a node: a number is grouped faster than a name. */ AS (
    SELECT
      n.value,
      n.level,
      MAX(n.level) OVER () AS height,
      MIN(n.value) OVER (PARTITION BY n.level, n.node) AS node,
      SUM(t.records) OVER (PARTITION BY n.level, n.node) / CAST(w.records AS DOUBLE) AS share
    FROM sqlanon_search_taxonomy_1 AS n
    JOIN sqlanon_search_totals_1 AS t
      ON t.value = n.value
    CROSS JOIN (
      SELECT
        SUM(records) AS records
      FROM sqlanon_search_totals_1
    ) AS w
  ), class_nodes AS (
    SELECT
      v.class_id,
      n.level,
      n.node,
      n.share,
      n.height,
      SUM(v.records) AS records
    FROM class_values_1 AS v
    JOIN nodes AS n
      ON n.value = v.value
    WHERE
      n.level < n.height
    GROUP BY
      v.class_id,
      n.level,
      n.node,
      n.share,
      n.height
  )
  SELECT
    class_id,
    measured,
    CASE WHEN NOT measured > CAST(0.3 AS DOUBLE) + 1e-9 THEN 0 ELSE 1 END AS broken
  FROM (
    SELECT
      c.class_id,
      SUM(GREATEST(c.records / s.records - c.share, 0)) / MAX(c.height) AS measured
    FROM class_nodes AS c
    JOIN sizes AS s
      ON s.class_id = c.class_id
    GROUP BY
      c.class_id
  ) AS distance
), result_4 AS (
  SELECT
    class_id,
    measured,
    CASE WHEN NOT measured > CAST(0.2 AS DOUBLE) + 1e-12 THEN 0 ELSE 1 END AS broken
  FROM (
    SELECT
      c.class_id,
      LEAST(COALESCE(s.records, 0) / c.records, 1) AS measured
    FROM class_sizes AS c
    LEFT JOIN (
      SELECT
        v.class_id,
        CAST(SUM(v.records) AS DOUBLE) AS records
      FROM class_values_1 AS v
      JOIN sqlanon_search_totals_1 AS t
        ON t.value = v.value
      WHERE
        t.label = 'HIV' OR v.known = 0
      GROUP BY
        v.class_id
    ) AS s
      ON s.class_id = c.class_id
  ) AS confidence
), node_classes AS (
  SELECT
    class_sizes.*,
    class_sizes.rows_ * COALESCE(
      GREATEST(result_3.measured - CAST(0.3 AS DOUBLE), CAST(0.0 AS DOUBLE)) / NULLIF((
        1 - CAST(0.3 AS DOUBLE)
      ), CAST(0.0 AS DOUBLE)),
      CAST(0.0 AS DOUBLE)
    ) AS lost3,
    class_sizes.rows_ * COALESCE(
      GREATEST(result_4.measured - CAST(0.2 AS DOUBLE), CAST(0.0 AS DOUBLE)) / NULLIF((
        1 - CAST(0.2 AS DOUBLE)
      ), CAST(0.0 AS DOUBLE)),
      CAST(0.0 AS DOUBLE)
    ) AS lost4,
    GREATEST(
      COALESCE(result_1.broken, 1),
      COALESCE(result_2.broken, 1),
      COALESCE(result_3.broken, 1),
      COALESCE(result_4.broken, 1)
    ) AS broken,
    GREATEST(
      COALESCE(result_1.broken, 1),
      COALESCE(result_2.broken, 1),
      COALESCE(result_3.broken, 1),
      COALESCE(result_4.broken, 1)
    ) AS nested
  FROM class_sizes
  LEFT JOIN result_1
    ON result_1.class_id = class_sizes.class_id
  LEFT JOIN result_2
    ON result_2.class_id = class_sizes.class_id
  LEFT JOIN result_3
    ON result_3.class_id = class_sizes.class_id
  LEFT JOIN result_4
    ON result_4.class_id = class_sizes.class_id
)
SELECT
  class_id
FROM node_classes
WHERE
  broken = 1;

CREATE TABLE "patients_released" AS
SELECT
  o1.label AS "age",
  o2.label AS "zip",
  o3.label AS "sex",
  o4.label AS "admitted",
  shuffled."disease" AS "disease"
FROM (
  SELECT
    d1.code AS "age",
    d2.code AS "zip",
    d3.code AS "sex",
    d4.code AS "admitted",
    original."disease" AS "disease"
  FROM (
    SELECT
      *
    FROM "patients" AS source
  ) AS original
  JOIN (
    SELECT
      original,
      MIN(position) OVER (PARTITION BY CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n2 END) AS code,
      CAST(r2 AS BIGINT) * CAST(16 AS BIGINT) + CAST(r3 AS BIGINT) * CAST(32 AS BIGINT) AS bits_1
    FROM sqlanon_search_dictionary_1
  ) AS d1
    ON original."age" IS NOT DISTINCT FROM d1.original
  JOIN (
    SELECT
      original,
      MIN(position) OVER (PARTITION BY CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n1 END) AS code,
      CAST(r4 AS BIGINT) * CAST(1024 AS BIGINT) AS bits_1
    FROM sqlanon_search_dictionary_2
  ) AS d2
    ON original."zip" IS NOT DISTINCT FROM d2.original
  JOIN (
    SELECT
      original,
      position AS code,
      CAST(r0 AS BIGINT) * CAST(4096 AS BIGINT) AS bits_1
    FROM sqlanon_search_dictionary_3
  ) AS d3
    ON original."sex" IS NOT DISTINCT FROM d3.original
  JOIN (
    SELECT
      original,
      MIN(position) OVER (PARTITION BY CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n2 END) AS code,
      CAST(r2 AS BIGINT) * CAST(1048576 AS BIGINT) AS bits_1
    FROM sqlanon_search_dictionary_4
  ) AS d4
    ON original."admitted" IS NOT DISTINCT FROM d4.original
  LEFT JOIN sqlanon_search_broken_1 AS b1
    ON b1.class_id = (
      d1.bits_1 + d2.bits_1 + d3.bits_1 + d4.bits_1
    )
  WHERE
    b1.class_id IS NULL
  ORDER BY
    RANDOM()
) AS shuffled
JOIN (
  SELECT DISTINCT
    MIN(position) OVER (PARTITION BY CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n2 END) AS code,
    CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n2 END AS label
  FROM sqlanon_search_dictionary_1
) AS o1
  ON o1.code = shuffled."age"
JOIN (
  SELECT DISTINCT
    MIN(position) OVER (PARTITION BY CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n1 END) AS code,
    CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n1 END AS label
  FROM sqlanon_search_dictionary_2
) AS o2
  ON o2.code = shuffled."zip"
JOIN (
  SELECT DISTINCT
    position AS code,
    original AS label
  FROM sqlanon_search_dictionary_3
) AS o3
  ON o3.code = shuffled."sex"
JOIN (
  SELECT DISTINCT
    MIN(position) OVER (PARTITION BY CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n2 END) AS code,
    CASE WHEN original IS NULL THEN CAST(NULL AS TEXT) ELSE n2 END AS label
  FROM sqlanon_search_dictionary_4
) AS o4
  ON o4.code = shuffled."admitted";
