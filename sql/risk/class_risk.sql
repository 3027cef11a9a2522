-- The risk of each class of a sample with sampling weights: the expected value of 1 / F, where F is the unknown size of
-- the class in the population and the weights add up to its estimate. Exact for one and two records, and for more the
-- approximation that sdcMicro takes. A class whose weights add up to no more than its records is the whole population
-- class. Close to that the exact terms would cancel out, so that their series is taken.
-- cite: Benedetti and Franconi 1998; Templ, Kowarik and Meindl 2015
-- measures: risk, that a record of the class is found
-- needs: weight
-- makes: class_risks
SELECT
    class_id,
    records,
    weight,
    CASE
        WHEN records >= 3 THEN p / (records - q)
        WHEN records = 1 AND q < 0.001 THEN p * (1 + q / 2 + q * q / 3 + q * q * q / 4)
        WHEN records = 1 THEN -LN(p) * p / q
        WHEN q < 0.001 THEN p - p * p * (CAST(0.5 AS DOUBLE PRECISION) + q / 3 + q * q / 4 + q * q * q / 5)
        ELSE p / q + LN(p) * (p / q) * (p / q)
    END AS risk
FROM (
    SELECT
        class_id,
        records,
        weight,
        LEAST(records / weight, CAST(1 AS DOUBLE PRECISION)) AS p,
        1 - LEAST(records / weight, CAST(1 AS DOUBLE PRECISION)) AS q
    FROM class_weights
) AS sampled
