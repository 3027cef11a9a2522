-- The sensitive values of each class by their rank, as one text: classes with the same text are alike.
-- cite: Wong, Fu, Wang and Pei 2007
-- measures: shape, the ranks of the values of a class and how many records have each
-- needs: requirement, sensitive
-- makes: class_shapes
SELECT
    class_id,
    SUM(records) AS records,
    STRING_AGG(CAST(value AS TEXT) || 'x' || CAST(records AS TEXT), ',' ORDER BY value) AS shape
FROM class_values
GROUP BY class_id
