-- Each sensitive value has its own limit: in no class may its share exceed the threshold given for it. Values
-- without a threshold are not limited.
-- cite: Liu and Wang 2010
-- param: thresholds map: sensitive value to its largest share in a class, between 0 and 1
-- measures: largest excess of a share over its threshold; worse when larger
-- needs: sensitive
-- monotone: yes; not under record suppression
WITH excess AS (
    SELECT
        v.class_id,
        MAX(CAST(v.records AS DOUBLE PRECISION) / c.records - h.amount) AS most
    FROM class_values AS v
    JOIN classes AS c ON c.class_id = v.class_id
    JOIN totals AS t ON t.value = v.value
    JOIN thresholds AS h ON h.label = t.label
    GROUP BY v.class_id
),
lowest AS (SELECT -MIN(amount) AS excess FROM thresholds)
SELECT class_id, measured
FROM (
    SELECT c.class_id, GREATEST(COALESCE(e.most, l.excess), l.excess) AS measured
    FROM classes AS c
    CROSS JOIN lowest AS l
    LEFT JOIN excess AS e ON e.class_id = c.class_id
) AS worst
WHERE measured > 1e-12
