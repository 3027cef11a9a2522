-- The ways in which the classes of a release are put together from finer groups, with the sensitive values of each
-- class by their rank. It serves requirements that look at all values, such as l-diversity and t-closeness.
-- cite: Wong, Fu, Wang and Pei 2007
-- measures: classes, how many are alike in the sizes of their groups and in their values
-- needs: requirement, sensitive
-- makes: worlds
SELECT sizes, ranks, COUNT(*) AS classes
FROM (
    SELECT g.class_id, g.sizes, v.ranks
    FROM (
        SELECT
            class_id,
            STRING_AGG(CAST(persons AS TEXT) || 'x' || CAST(groups AS TEXT), ',' ORDER BY persons) AS sizes
        FROM (
            SELECT class_id, persons, COUNT(*) AS groups FROM finer_groups GROUP BY class_id, persons
        ) AS alike
        GROUP BY class_id
    ) AS g
    JOIN (
        SELECT
            class_id,
            STRING_AGG(CAST(value AS TEXT) || 'x' || CAST(records AS TEXT), ',' ORDER BY value) AS ranks
        FROM class_values
        GROUP BY class_id
    ) AS v ON v.class_id = g.class_id
) AS configurations
GROUP BY sizes, ranks
ORDER BY sizes, ranks
