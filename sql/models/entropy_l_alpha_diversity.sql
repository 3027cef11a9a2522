-- Distinct (l,alpha)-diversity, and the entropy over the categories of every class is at least ln(l).
-- cite: Sun, Li and Wang 2011
-- param: l integer >= 2: fewest different values, and least mix of categories
-- param: alpha number >= 0: smallest total weight of a class
-- param: categories list: lists of sensitive values, from the most to the least sensitive category
-- param: weights list default uniform: a weight for each category, in place of the weighting below
-- param: weighting text default uniform: uniform, or sensitivity (differences shrink towards the harmless end)
-- param: beta number >= 0 default 1: exponent of the sensitivity weighting
-- measures: exp(entropy) of the categories in the class; worse when smaller
-- needs: sensitive
-- monotone: yes; not under record suppression
WITH sums AS (
    SELECT v.class_id, COUNT(*) AS m, SUM(v.records * w.weight) AS weight
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    JOIN weights AS w ON w.label IS NOT DISTINCT FROM t.label
    GROUP BY v.class_id
),
mixes AS (
    SELECT
        class_id,
        EXP(
            LN(CAST(SUM(records) AS DOUBLE PRECISION))
            - SUM(records * LN(CAST(records AS DOUBLE PRECISION))) / CAST(SUM(records) AS DOUBLE PRECISION)
        ) AS measured
    FROM class_categories
    GROUP BY class_id
)
SELECT sums.class_id, mixes.measured
FROM sums
JOIN mixes ON mixes.class_id = sums.class_id
WHERE sums.m < :l OR sums.weight < :alpha - 1e-9 OR mixes.measured < :l - 1e-9
