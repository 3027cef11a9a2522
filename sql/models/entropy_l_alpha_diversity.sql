-- Distinct (l,alpha)-diversity, and the entropy over the categories of every class is at least ln(l).
-- A NULL is an unknown value: it has the weight of the category that lists it (as null), never counts as a different
-- value, and is taken for one of the most frequent category, unless the policy says `sensitive_nulls: value`.
-- cite: Sun, Li and Wang 2011
-- param: l integer >= 2: fewest different values, and least mix of categories
-- param: alpha number >= 0: smallest total weight of a class
-- param: categories list: lists of sensitive values, from the most to the least sensitive category
-- param: weights list default uniform: a weight for each category, in place of the weighting below
-- param: weighting text default uniform: uniform, or sensitivity (differences shrink towards the harmless end)
-- param: beta number >= 0 default 1: exponent of the sensitivity weighting
-- measures: exp(entropy) of the categories in the class; worse when smaller
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
mixes AS (
    SELECT
        class_id,
        EXP(
            LN(records)
            - (nats - most * LN(GREATEST(most, 1)) + (most + unknown) * LN(most + unknown)) / records
        ) AS measured
    FROM (
        SELECT
            class_id,
            CAST(SUM(records) AS DOUBLE PRECISION) AS records,
            SUM(CASE WHEN category IS NULL THEN 0 ELSE records * LN(CAST(records AS DOUBLE PRECISION)) END) AS nats,
            CAST(MAX(CASE WHEN category IS NULL THEN 0 ELSE records END) AS DOUBLE PRECISION) AS most,
            CAST(SUM(CASE WHEN category IS NULL THEN records ELSE 0 END) AS DOUBLE PRECISION) AS unknown
        FROM class_categories
        GROUP BY class_id
    ) AS counted
)
SELECT sums.class_id, mixes.measured
FROM sums
JOIN mixes ON mixes.class_id = sums.class_id
WHERE sums.m < :l OR sums.weight < :alpha - 1e-9 OR mixes.measured < :l - 1e-9
