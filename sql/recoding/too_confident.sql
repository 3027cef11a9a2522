-- The records of a class, by their sensitive value, that could be inferred with more confidence than was to be
-- expected: the model expected_confidence, record by record.
-- param: beta number: the rate at which the release was sampled
WITH draws AS (SELECT CAST(SUM(records) AS DOUBLE PRECISION) AS n FROM classes)
SELECT v.class_id, v.value
FROM class_values AS v
JOIN classes AS c ON c.class_id = v.class_id
JOIN class_probability AS p ON p.class_id = v.class_id AND p.value = v.value
CROSS JOIN draws AS d
WHERE
    :beta * v.records / c.records
    -- (1 - Pr)^n by its logarithm, cut off where it is zero in effect: POWER would underflow to an error.
    - CASE WHEN p.probability >= 1 THEN 1 ELSE 1 - EXP(GREATEST(d.n * LN(1 - p.probability), -700)) END > 1e-12
