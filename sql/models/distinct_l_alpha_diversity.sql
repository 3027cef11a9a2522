-- Distinct l-diversity, and the rows of every class are harmless enough in total: sensitive values fall into categories
-- with weights from 0 (most sensitive) to 1, and the weights of a class add up to at least alpha. It withstands the
-- similarity attack on classes whose values differ but are all equally grave. A NULL is an unknown value: it has the
-- weight of the category that lists it (as null), but never counts as a different value, unless the policy says
-- `sensitive_nulls: value`.
-- cite: Sun, Li and Wang 2011
-- param: l integer >= 2: fewest different sensitive values in a class
-- param: alpha number >= 0: smallest total weight of a class
-- param: categories list: lists of sensitive values, from the most to the least sensitive category
-- param: weights list default uniform: a weight for each category, in place of the weighting below
-- param: weighting text default uniform: uniform, or sensitivity (differences shrink towards the harmless end)
-- param: beta number >= 0 default 1: exponent of the sensitivity weighting
-- measures: total weight of the class; worse when smaller
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes, also under record suppression
SELECT class_id, measured
FROM (
    SELECT v.class_id, CAST(SUM(v.known) AS BIGINT) AS m, SUM(v.records * w.weight) AS measured
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    JOIN weights AS w ON w.label IS NOT DISTINCT FROM t.label
    GROUP BY v.class_id
) AS diversity
WHERE m < :l OR measured < :alpha - 1e-9
