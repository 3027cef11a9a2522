-- The share p of every sensitive value in every class differs from its share q in the table by less than the factor
-- exp(delta): |ln(p/q)| < delta. A class that lacks a value of the table breaks it for every delta.
-- NULL is a value here: a missing value tells something, and its share is compared like any other. The value behind
-- a NULL is not protected; see the diversity models for unknown values.
-- cite: Brickell and Shmatikov 2008
-- param: delta number > 0: bound on |ln(p/q)|
-- param: observed_only boolean default false: leave out the values that the class lacks
-- measures: largest |ln(p/q)| in the class; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes, unless observed_only; not under record suppression
WITH sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM class_values GROUP BY class_id
),
whole AS (
    SELECT t.value, CAST(t.records AS DOUBLE PRECISION) / w.records AS share
    FROM totals AS t
    CROSS JOIN (SELECT SUM(records) AS records FROM totals) AS w
),
ratios AS (
    SELECT v.class_id, ABS(LN(v.records / s.records / w.share)) AS ratio
    FROM class_values AS v
    JOIN sizes AS s ON s.class_id = v.class_id
    JOIN whole AS w ON w.value = v.value
)
SELECT class_id, measured
FROM (
    SELECT
        r.class_id,
        CASE
            WHEN COUNT(*) < MAX(n.n) AND NOT :observed_only THEN CAST('Infinity' AS DOUBLE PRECISION)
            ELSE MAX(r.ratio)
        END AS measured
    FROM ratios AS r
    CROSS JOIN (SELECT COUNT(*) AS n FROM totals) AS n
    GROUP BY r.class_id
) AS worst
WHERE measured >= :delta - 1e-12
