-- Number the sets of rows of persons: two persons get the same number if and only if they have the same number of rows
-- in every class. A set is spelt as its classes in their order, each with its rows: numbers and separators, so that two
-- sets never make one text.
SELECT person, DENSE_RANK() OVER (ORDER BY spelt) AS row_set, records
FROM (
    SELECT
        person,
        STRING_AGG(CAST(class_id AS TEXT) || ':' || CAST(records AS TEXT), ',' ORDER BY class_id) AS spelt,
        CAST(SUM(records) AS BIGINT) AS records
    FROM person_rows
    GROUP BY person
) AS sets
