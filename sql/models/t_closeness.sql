-- The distribution of the sensitive attribute in every class is within t of its distribution in the whole table.
-- Distance: earth mover's with all pairs of values equally far apart, half the sum of |p - q|.
-- NULL is a value here: a missing value tells something, and its share is compared like any other. The value behind
-- a NULL is not protected; see the diversity models for unknown values.
-- cite: Li, Li and Venkatasubramanian 2007
-- param: t number >= 0 <= 1: largest distance
-- measures: distance of the class to the table; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
-- excess: measured - :t, at most 1 - :t
-- bounds: distance(t)
WITH sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM class_values GROUP BY class_id
),
whole AS (
    SELECT t.value, CAST(t.records AS DOUBLE PRECISION) / w.records AS share
    FROM totals AS t
    CROSS JOIN (SELECT SUM(records) AS records FROM totals) AS w
)
SELECT class_id, measured
FROM (
    SELECT v.class_id, SUM(GREATEST(v.records / s.records - w.share, 0)) AS measured
    FROM class_values AS v
    JOIN sizes AS s ON s.class_id = v.class_id
    JOIN whole AS w ON w.value = v.value
    GROUP BY v.class_id
) AS distance
WHERE measured > :t + 1e-9
