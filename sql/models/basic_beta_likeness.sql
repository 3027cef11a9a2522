-- In no class does the share p of a sensitive value exceed its share q in the table by more than the factor
-- 1 + beta: (p - q)/q <= beta wherever p > q.
-- NULL is a value here: a missing value tells something, and its share is compared like any other. The value behind
-- a NULL is not protected; see the diversity models for unknown values.
-- cite: Cao and Karras 2012
-- param: beta number > 0: largest relative gain
-- measures: largest relative gain of a sensitive value in the class; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
WITH whole AS (
    SELECT value, CAST(records AS DOUBLE PRECISION) / SUM(records) OVER () AS share FROM totals
)
SELECT class_id, measured
FROM (
    SELECT v.class_id, GREATEST(MAX(v.records / w.share) / SUM(v.records) - 1, 0) AS measured
    FROM class_values AS v
    JOIN whole AS w ON w.value = v.value
    GROUP BY v.class_id
) AS worst
WHERE measured > :beta + 1e-9
