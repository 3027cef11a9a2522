-- In no class does the share p of a sensitive value exceed its share q in the table by more than the factor
-- 1 + beta: (p - q)/q <= beta wherever p > q.
-- cite: Cao and Karras 2012
-- param: beta number > 0: largest relative gain
-- measures: largest relative gain of a sensitive value in the class; worse when larger
-- needs: sensitive
-- monotone: yes; not under record suppression
WITH sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM class_values GROUP BY class_id
),
whole AS (
    SELECT t.value, CAST(t.records AS DOUBLE PRECISION) / w.records AS share
    FROM totals AS t
    CROSS JOIN (SELECT SUM(records) AS records FROM totals) AS w
),
gains AS (
    SELECT
        v.class_id,
        v.records / s.records / w.share - 1 AS gain,
        w.share
    FROM class_values AS v
    JOIN sizes AS s ON s.class_id = v.class_id
    JOIN whole AS w ON w.value = v.value
)
SELECT class_id, measured
FROM (SELECT class_id, GREATEST(MAX(gain), 0) AS measured FROM gains GROUP BY class_id) AS worst
WHERE measured > :beta + 1e-9
