-- What `sqlanon check` measures: the relations, then each model with the classes that break it.

CREATE OR REPLACE TEMPORARY VIEW sqlanon_cells_1 AS
SELECT
  `age` AS c1,
  `zip` AS c2,
  `sex` AS c3,
  `admitted` AS c4,
  `disease` AS original,
  COUNT(*) AS records
FROM (
  SELECT
    *
  FROM `patients` AS source
) AS source
GROUP BY
  `age`,
  `zip`,
  `sex`,
  `admitted`,
  `disease`;

CREATE OR REPLACE TEMPORARY VIEW sqlanon_classes_1 AS
SELECT
  DENSE_RANK() OVER (ORDER BY c1 ASC, c2 ASC, c3 ASC, c4 ASC) AS class_id,
  records,
  c1,
  c2,
  c3,
  c4
FROM (
  SELECT
    c1,
    c2,
    c3,
    c4,
    CAST(SUM(records) AS BIGINT) AS records
  FROM sqlanon_cells_1
  GROUP BY
    c1,
    c2,
    c3,
    c4
) AS grouped;

CREATE OR REPLACE TEMPORARY VIEW sqlanon_class_values_1 AS
SELECT
  class_id,
  DENSE_RANK() OVER (ORDER BY original ASC) AS value,
  records,
  known
FROM (
  SELECT
    DENSE_RANK() OVER (ORDER BY c1 ASC, c2 ASC, c3 ASC, c4 ASC) AS class_id,
    original,
    records,
    known
  FROM (
    SELECT
      *,
      CASE WHEN original IS NULL THEN 0 ELSE 1 END AS known
    FROM sqlanon_cells_1
  ) AS r
) AS n;

CREATE OR REPLACE TEMPORARY VIEW sqlanon_totals_1 AS
SELECT
  ROW_NUMBER() OVER (ORDER BY original ASC) AS value,
  CAST(original AS STRING) AS label,
  CAST(NULL AS DOUBLE) AS number,
  records,
  original
FROM (
  SELECT
    original,
    CAST(SUM(records) AS BIGINT) AS records
  FROM sqlanon_cells_1
  GROUP BY
    original
) AS counted;

CREATE OR REPLACE TEMPORARY VIEW sqlanon_result_1 AS
SELECT
  class_id,
  measured,
  CASE WHEN NOT measured < 3 THEN 0 ELSE 1 END AS broken
FROM (
  SELECT
    class_id,
    CAST(SUM(known) AS BIGINT) AS measured
  FROM sqlanon_class_values_1
  GROUP BY
    class_id
) AS diversity;

CREATE OR REPLACE TEMPORARY VIEW sqlanon_lookup_1 AS
SELECT
  CAST(v0 AS STRING) AS level_0,
  CAST(v1 AS STRING) AS level_1,
  CAST(v2 AS STRING) AS level_2
FROM VALUES
  ('influenza', 'infectious', 'any'),
  ('hepatitis', 'infectious', 'any'),
  ('HIV', 'infectious', 'any'),
  ('hypertension', 'chronic', 'any'),
  ('diabetes', 'chronic', 'any'),
  ('asthma', 'chronic', 'any'),
  ('migraine', 'chronic', 'any'),
  ('cancer', 'grave', 'any'),
  ('depression', 'grave', 'any'),
  ('appendicitis', 'acute', 'any') AS listed(v0, v1, v2);

CREATE OR REPLACE TEMPORARY VIEW sqlanon_taxonomy_1 AS
SELECT
  t.value,
  0 AS level,
  COALESCE(CAST(t.label AS STRING), '∅ NULL') AS node
FROM sqlanon_totals_1 AS t
LEFT JOIN sqlanon_lookup_1 AS l
  ON l.level_0 = t.label
UNION ALL
SELECT
  t.value,
  1 AS level,
  COALESCE(CAST(l.level_1 AS STRING), '∅ NULL') AS node
FROM sqlanon_totals_1 AS t
LEFT JOIN sqlanon_lookup_1 AS l
  ON l.level_0 = t.label
UNION ALL
SELECT
  t.value,
  2 AS level,
  COALESCE(CAST('any' AS STRING), '∅ NULL') AS node
FROM sqlanon_totals_1 AS t
LEFT JOIN sqlanon_lookup_1 AS l
  ON l.level_0 = t.label;

CREATE OR REPLACE TEMPORARY VIEW sqlanon_result_2 AS
WITH sizes AS (
  SELECT
    class_id,
    CAST(SUM(records) AS DOUBLE) AS records
  FROM sqlanon_class_values_1
  GROUP BY
    class_id
), nodes /* The least of its values stands for a node: a number is grouped faster than a name. */ AS (
  SELECT
    n.value,
    n.level,
    MAX(n.level) OVER () AS height,
    MIN(n.value) OVER (PARTITION BY n.level, n.node) AS node,
    SUM(t.records) OVER (PARTITION BY n.level, n.node) / CAST(w.records AS DOUBLE) AS share
  FROM sqlanon_taxonomy_1 AS n
  JOIN sqlanon_totals_1 AS t
    ON t.value = n.value
  CROSS JOIN (
    SELECT
      SUM(records) AS records
    FROM sqlanon_totals_1
  ) AS w
), class_nodes AS (
  SELECT
    v.class_id,
    n.level,
    n.node,
    n.share,
    n.height,
    SUM(v.records) AS records
  FROM sqlanon_class_values_1 AS v
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
) AS distance;

CREATE OR REPLACE TEMPORARY VIEW sqlanon_result_3 AS
SELECT
  class_id,
  measured,
  CASE WHEN NOT measured > CAST(0.2 AS DOUBLE) + 1e-12 THEN 0 ELSE 1 END AS broken
FROM (
  SELECT
    c.class_id,
    LEAST(COALESCE(s.records, 0) / c.records, 1) AS measured
  FROM sqlanon_classes_1 AS c
  LEFT JOIN (
    SELECT
      v.class_id,
      CAST(SUM(v.records) AS DOUBLE) AS records
    FROM sqlanon_class_values_1 AS v
    JOIN sqlanon_totals_1 AS t
      ON t.value = v.value
    WHERE
      t.label = 'HIV' OR v.known = 0
    GROUP BY
      v.class_id
  ) AS s
    ON s.class_id = c.class_id
) AS confidence;

-- k_anonymity(k=5) on (age, zip, sex, admitted)
SELECT
  COUNT(*) AS classes,
  CAST(SUM(broken) AS BIGINT) AS broken_classes,
  MIN(measured) AS worst
FROM (
  SELECT
    class_id,
    records AS measured,
    CASE WHEN NOT records < 5 THEN 0 ELSE 1 END AS broken
  FROM sqlanon_classes_1
) AS result;

-- distinct_l_diversity(l=3) on (age, zip, sex, admitted) for disease
SELECT
  COUNT(*) AS classes,
  CAST(SUM(broken) AS BIGINT) AS broken_classes,
  MIN(measured) AS worst
FROM sqlanon_result_1;

-- hierarchical_t_closeness(t=0.3) on (age, zip, sex, admitted) for disease
SELECT
  COUNT(*) AS classes,
  CAST(SUM(broken) AS BIGINT) AS broken_classes,
  MAX(measured) AS worst
FROM sqlanon_result_2;

-- confidence_bounding(value=HIV, h=0.2) on (age, zip, sex, admitted) for disease
SELECT
  COUNT(*) AS classes,
  CAST(SUM(broken) AS BIGINT) AS broken_classes,
  MAX(measured) AS worst
FROM sqlanon_result_3;
