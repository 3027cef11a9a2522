-- Distinct (l,alpha)-diversity, and recursive (c,l)-diversity counted over categories instead of values.
-- A NULL is an unknown value: it has the weight of the category that lists it (as null), never counts as a different
-- value, and is taken for one of the most frequent category, unless the policy says `sensitive_nulls: value`.
-- cite: Sun, Li and Wang 2011
-- param: c number > 0: how far the most frequent category may exceed the tail
-- param: l integer >= 2: fewest different values, and where the tail of categories begins
-- param: alpha number >= 0: smallest total weight of a class
-- param: categories list: lists of sensitive values, from the most to the least sensitive category
-- param: weights list default uniform: a weight for each category, in place of the weighting below
-- param: weighting text default uniform: uniform, or sensitivity (differences shrink towards the harmless end)
-- param: beta number >= 0 default 1: exponent of the sensitivity weighting
-- measures: r_1 / (r_l + ... + r_m) over categories, which c must exceed; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
WITH sums AS (
    SELECT v.class_id, CAST(SUM(v.known) AS BIGINT) AS m, SUM(v.records * w.weight) AS weight
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    JOIN weights AS w ON w.label IS NOT DISTINCT FROM t.label
    GROUP BY v.class_id
),
ranked AS (
    SELECT
        class_id,
        records,
        CASE WHEN category IS NULL THEN 0 ELSE 1 END AS known,
        ROW_NUMBER() OVER (
            PARTITION BY class_id
            ORDER BY CASE WHEN category IS NULL THEN 1 ELSE 0 END, records DESC, category
        ) AS place
    FROM class_categories
),
tails AS (
    SELECT
        class_id,
        CAST(MAX(known * records) + SUM((1 - known) * records) AS DOUBLE PRECISION) AS most,
        CAST(SUM(CASE WHEN place >= :l THEN known * records ELSE 0 END) AS DOUBLE PRECISION) AS tail
    FROM ranked
    GROUP BY class_id
)
SELECT
    sums.class_id,
    CASE WHEN tails.tail = 0 THEN CAST('Infinity' AS DOUBLE PRECISION) ELSE tails.most / tails.tail END AS measured
FROM sums
JOIN tails ON tails.class_id = sums.class_id
WHERE sums.m < :l OR sums.weight < :alpha - 1e-9 OR tails.most >= :c * tails.tail * (1 - 1e-12)
