-- The risk of each record of a sample, from its sampling weights, over the whole table.
-- cite: Benedetti and Franconi 1998; Templ, Kowarik and Meindl 2015
-- param: threshold number > 0 <= 1 default 0.2: a record is at risk if its own risk is larger
-- measures: records_at_risk, their share; highest, the largest risk of a record; average, the share of records that is
--   expected to be found; expected, their number
-- needs: weight
SELECT
    CAST(SUM(CASE WHEN risk > CAST(:threshold AS DOUBLE PRECISION) + 1e-12 THEN records ELSE 0 END)
        AS DOUBLE PRECISION) / SUM(records) AS records_at_risk,
    MAX(risk) AS highest,
    SUM(records * risk) / SUM(records) AS average,
    SUM(records * risk) AS expected
FROM class_risks
