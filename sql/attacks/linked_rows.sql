-- The attacker knows all rows of a person, sees which rows of the table belong together, and looks for the persons with
-- the same set of rows: equally many rows in each class. k-anonymity of single rows does not withstand it; k persons
-- with each set of rows do. An attacker who knows only some of the rows is left with as many persons, or more.
-- cite: Nergiz, Clifton and Nergiz 2007; de Montjoye, Hidalgo, Verleysen and Blondel 2013
-- param: certainty number > 0 <= 1 default 1: a person is broken if their set of rows is found with at least this confidence
-- measures: confidence, that a set of rows belongs to a person; 0 if none matches
-- no_guess: whole sets of rows are looked for, and which sets persons outside of the table have is not known
-- needs: targets, linked
-- traits: singles_out
WITH places AS (
    SELECT group_id, MIN(class_id) AS class_id FROM target_classes GROUP BY group_id
),
known AS (
    SELECT person, STRING_AGG(CAST(class_id AS TEXT) || ':' || CAST(records AS TEXT), ',' ORDER BY class_id) AS spelt
    FROM (
        -- A row without a place in the table is in no set there: 0 is no class.
        SELECT t.person, COALESCE(p.class_id, 0) AS class_id, CAST(SUM(t.records) AS BIGINT) AS records
        FROM target_rows AS t
        LEFT JOIN places AS p ON p.group_id = t.group_id
        GROUP BY t.person, COALESCE(p.class_id, 0)
    ) AS places_of_rows
    GROUP BY person
),
shown AS (
    SELECT person, STRING_AGG(CAST(class_id AS TEXT) || ':' || CAST(records AS TEXT), ',' ORDER BY class_id) AS spelt
    FROM class_rows
    GROUP BY person
),
sought AS (
    SELECT spelt, COUNT(*) AS persons FROM known GROUP BY spelt
),
found AS (
    SELECT spelt, COUNT(*) AS records FROM shown GROUP BY spelt
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT
        s.persons,
        -- Both engines leave NULL out of GREATEST.
        CASE WHEN f.records IS NULL THEN 0 ELSE CAST(1 AS DOUBLE PRECISION) / GREATEST(f.records, s.persons) END
            AS confidence
    FROM sought AS s
    LEFT JOIN found AS f ON f.spelt = s.spelt
) AS linked
