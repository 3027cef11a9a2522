-- The attacker finds the class of a person. If most numbers of the class lie close together, they know about how large
-- the person's number is. (epsilon,m)-anonymity with 1 / m below `certainty` withstands it.
-- cite: Li, Tao and Xiao 2008
-- param: epsilon number >= 0: numbers no farther apart than this count as equal
-- param: certainty number > 0 <= 1 default 1: a person is broken if this share of their class is close to their number
-- measures: confidence, that a person's number lies where most numbers of their class do, near their own
-- no_guess: it looks at the numbers near the one that a person has, which nobody knows who guesses that number
-- needs: sensitive, numeric, epsilon
WITH near AS (
    SELECT
        v.class_id,
        v.records AS persons,
        SUM(v.records) OVER (
            PARTITION BY v.class_id
            ORDER BY t.number
            RANGE BETWEEN :epsilon + 1e-12 PRECEDING AND :epsilon + 1e-12 FOLLOWING
        ) AS records
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    WHERE t.number IS NOT NULL
    UNION ALL
    -- A value that is no finite number, such as NULL, is close to itself alone.
    SELECT v.class_id, v.records AS persons, v.records
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    WHERE t.number IS NULL
)
SELECT
    n.persons,
    LEAST(CAST(n.records AS DOUBLE PRECISION) / c.records, 1) AS confidence,
    CASE WHEN CAST(n.records AS DOUBLE PRECISION) >= :certainty * c.records - 1e-9 THEN 1 ELSE 0 END AS broken
FROM near AS n
JOIN classes AS c ON c.class_id = n.class_id
