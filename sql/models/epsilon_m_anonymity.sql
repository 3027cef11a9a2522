-- For a numeric sensitive attribute: for every value s of a class, at most 1/m of the class lies within
-- [s - epsilon, s + epsilon]. It stops the proximity attack.
-- A person with several values that count counts once for each: the share errs on the safe side.
-- NULLs are unknown values and count as near to every value, unless the policy says `sensitive_nulls: value`: then
-- NULL is near to nothing but NULL.
-- cite: Li, Tao and Xiao 2008
-- param: epsilon number >= 0: half width of the neighbourhood
-- param: m integer >= 2: at most one in m lies in a neighbourhood
-- measures: largest share of the class within one neighbourhood; worse when larger
-- needs: sensitive, numeric
-- shapes: rows, entity
-- monotone: no
WITH near AS (
    SELECT
        v.class_id,
        SUM(v.records) OVER (
            PARTITION BY v.class_id
            ORDER BY t.number
            RANGE BETWEEN :epsilon + 1e-12 PRECEDING AND :epsilon + 1e-12 FOLLOWING
        ) AS records
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    WHERE t.number IS NOT NULL
    UNION ALL
    -- A value that is no finite number is its own neighbourhood; one that is not known is near to all.
    SELECT v.class_id, v.known * v.records AS records
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    WHERE t.number IS NULL
),
unknowns AS (
    SELECT class_id, SUM((1 - known) * records) AS records FROM class_values GROUP BY class_id
)
SELECT class_id, measured
FROM (
    SELECT c.class_id, LEAST(
        CAST(COALESCE(MAX(n.records), 0) + COALESCE(MAX(u.records), 0) AS DOUBLE PRECISION) / c.records, 1
    ) AS measured
    FROM classes AS c
    LEFT JOIN near AS n ON n.class_id = c.class_id
    LEFT JOIN unknowns AS u ON u.class_id = c.class_id
    GROUP BY c.class_id, c.records
) AS proximity
WHERE measured > 1.0 / :m + 1e-12
