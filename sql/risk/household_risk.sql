-- The risk that an attacker finds at least one member of a household, and through them the others.
-- cite: Templ, Kowarik and Meindl 2015
-- measures: risk, that a member of the household is found
-- needs: weight, household
-- makes: household_risks
SELECT
    h.household,
    CAST(SUM(h.records) AS BIGINT) AS members,
    CASE
        WHEN MAX(r.risk) >= 1 THEN CAST(1 AS DOUBLE PRECISION)
        ELSE 1 - EXP(SUM(h.records * LN(1 - LEAST(r.risk, 1 - CAST(1e-15 AS DOUBLE PRECISION)))))
    END AS risk
FROM class_households AS h
JOIN class_risks AS r ON r.class_id = h.class_id
GROUP BY h.household
