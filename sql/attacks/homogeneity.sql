-- The attacker finds the class of a person. If all records of the class have the same sensitive value, they know the
-- value of the person. Distinct l-diversity with l of 2 or more withstands it.
-- cite: Machanavajjhala, Gehrke, Kifer and Venkitasubramaniam 2006
-- measures: confidence, that a person has the most frequent value of their class; broken, if there is no other
-- needs: sensitive
-- traits: certain
SELECT
    c.records AS persons,
    CAST(MAX(v.records) AS DOUBLE PRECISION) / c.records AS confidence,
    CASE WHEN MAX(v.records) >= c.records THEN 1 ELSE 0 END AS broken
FROM classes AS c
JOIN class_values AS v ON v.class_id = c.class_id
GROUP BY c.class_id, c.records
