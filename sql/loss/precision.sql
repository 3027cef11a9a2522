-- Loss of precision: level / height of each value, a suppressed value 1. Mean over the records and attributes.
-- cite: Sweeney 2002
-- measures: mean share of the way up the hierarchies, 0 to 1; worse when larger
-- monotone: yes; not with suppression
-- traits: nodes
SELECT AVG(loss) AS loss
FROM (
    SELECT
        attribute,
        SUM(records * CASE WHEN kept = 1 THEN level / CAST(height AS DOUBLE PRECISION) ELSE 1 END)
        / CAST(SUM(records) AS DOUBLE PRECISION) AS loss
    FROM recoded_values
    GROUP BY attribute
) AS by_attribute
