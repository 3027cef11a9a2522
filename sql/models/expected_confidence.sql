-- An attacker learns no more about a record than was to be expected: the confidence of inferring its sensitive value
-- from the release, beta * (share of the value in its class), is at most the probability 1 - (1 - Pr(t))^n that such a
-- record turns up in n random draws from the public distribution. NULL is a value here: a missing value tells
-- something, and its share is compared like any other. The value behind a NULL is not protected; see the diversity
-- models for unknown values.
-- cite: Sattar, Li, Ding, Liu and Vincent 2013
-- param: beta number > 0 <= 1 default 1: the rate at which the release was sampled
-- param: public column_map default own: column to a mapping of its values to their public probabilities (default: their shares in the table)
-- param: conditional list default none: exceptions to the probability of a sensitive value, each {when: {column: value}, value: v, probability: p}
-- measures: largest excess of observed over expected confidence; worse when larger
-- counts: rows
-- needs: sensitive, probabilities
-- monotone: no
WITH draws AS (SELECT CAST(SUM(records) AS DOUBLE PRECISION) AS n FROM classes)
SELECT class_id, measured
FROM (
    SELECT
        v.class_id,
        MAX(
            :beta * v.records / c.records
            -- (1 - Pr)^n by its logarithm, cut off where it is zero in effect: POWER would underflow to an error.
            - CASE WHEN p.probability >= 1 THEN 1 ELSE 1 - EXP(GREATEST(d.n * LN(1 - p.probability), -700)) END
        ) AS measured
    FROM class_values AS v
    JOIN classes AS c ON c.class_id = v.class_id
    JOIN class_probability AS p ON p.class_id = v.class_id AND p.value = v.value
    CROSS JOIN draws AS d
    GROUP BY v.class_id
) AS gain
WHERE measured > 1e-12
