-- How well persons hide behind others with the same set of rows: persons in all, those with several rows, those whose set
-- nobody else has, the fewest persons that share a set, and the number of sets.
SELECT
    CAST(SUM(persons) AS BIGINT) AS persons,
    CAST(SUM(CASE WHEN records > 1 THEN persons ELSE 0 END) AS BIGINT) AS several,
    CAST(SUM(CASE WHEN persons = 1 THEN 1 ELSE 0 END) AS BIGINT) AS alone,
    MIN(persons) AS fewest,
    COUNT(*) AS sets
FROM (
    SELECT row_set, MAX(records) AS records, COUNT(*) AS persons
    FROM row_sets
    GROUP BY row_set
) AS sets
