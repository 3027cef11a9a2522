-- Basic beta-likeness with a limit that also holds for frequent values: (p - q)/q <= min(beta, -ln q) wherever
-- p > q.
-- NULL is a value here: a missing value tells something, and its share is compared like any other. The value behind
-- a NULL is not protected; see the diversity models for unknown values.
-- cite: Cao and Karras 2012
-- param: beta number > 0: largest relative gain of a rare value
-- measures: largest relative gain of a sensitive value in the class; worse when larger
-- needs: sensitive
-- shapes: rows, entity
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
FROM (
    SELECT
        class_id,
        GREATEST(MAX(gain), 0) AS measured,
        MAX(CASE WHEN gain > 0 THEN gain - LEAST(:beta, -LN(share)) ELSE 0 END) AS excess
    FROM gains
    GROUP BY class_id
) AS worst
WHERE excess > 1e-9
