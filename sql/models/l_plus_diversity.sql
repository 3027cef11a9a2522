-- Each sensitive value has its own limit: in no class may its share exceed the threshold given for it. Values
-- without a threshold are not limited.
-- NULLs are unknown values and count as each of the limited values, so that it holds whatever they are, unless the
-- policy says `sensitive_nulls: value`.
-- cite: Liu and Wang 2010
-- param: thresholds map: sensitive value to its largest share in a class, between 0 and 1
-- measures: largest excess of a share over its threshold; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
WITH unknowns AS (
    SELECT class_id, SUM((1 - known) * records) AS records FROM class_values GROUP BY class_id
),
excess AS (
    SELECT
        v.class_id,
        MAX(LEAST(CAST(v.records + u.records AS DOUBLE PRECISION) / c.records, 1) - h.amount) AS most
    FROM class_values AS v
    JOIN classes AS c ON c.class_id = v.class_id
    JOIN unknowns AS u ON u.class_id = v.class_id
    JOIN totals AS t ON t.value = v.value
    JOIN thresholds AS h ON h.label = t.label
    GROUP BY v.class_id
),
lowest AS (SELECT MIN(amount) AS amount FROM thresholds)
SELECT class_id, measured
FROM (
    -- What is not known may be a value that the class lacks otherwise.
    SELECT
        c.class_id,
        GREATEST(
            COALESCE(e.most, -l.amount),
            CAST(COALESCE(u.records, 0) AS DOUBLE PRECISION) / c.records - l.amount
        ) AS measured
    FROM classes AS c
    CROSS JOIN lowest AS l
    LEFT JOIN unknowns AS u ON u.class_id = c.class_id
    LEFT JOIN excess AS e ON e.class_id = c.class_id
) AS worst
WHERE measured > 1e-12
