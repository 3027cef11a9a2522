-- The risk of each record of a sample where households are known: an attacker who finds one member finds them all.
-- cite: Templ, Kowarik and Meindl 2015
-- param: threshold number > 0 <= 1 default 0.2: a record is at risk if the risk of its household is larger
-- measures: records_at_risk, their share; highest, the largest risk of a household; average, the share of records that
--   is expected to be found; expected, their number; households, how many there are
-- needs: weight, household
SELECT
    CAST(SUM(CASE WHEN risk > CAST(:threshold AS DOUBLE PRECISION) + 1e-12 THEN members ELSE 0 END)
        AS DOUBLE PRECISION) / SUM(members) AS records_at_risk,
    MAX(risk) AS highest,
    SUM(members * risk) / SUM(members) AS average,
    SUM(members * risk) AS expected,
    COUNT(*) AS households
FROM household_risks
