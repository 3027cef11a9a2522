-- For a numeric sensitive attribute: every class holds at least k different values that span a range of e at
-- least. It does not stop the proximity attack: most values may still be close together.
-- A NULL is never one of the k values, whatever `sensitive_nulls` says: it has no place in a range.
-- cite: Zhang et al. 2007
-- param: k integer >= 2: fewest different values in a class
-- param: e number >= 0: smallest difference between the largest and the smallest value
-- measures: range of the sensitive values in the class; worse when smaller
-- needs: sensitive, numeric
-- shapes: rows, entity
-- monotone: yes, also under record suppression
-- bounds: range(k, e)
SELECT class_id, measured
FROM (
    SELECT
        v.class_id,
        COUNT(t.number) AS m,
        COALESCE(MAX(t.number) - MIN(t.number), 0) AS measured
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    GROUP BY v.class_id
) AS spread
WHERE m < :k OR measured < :e - 1e-12
