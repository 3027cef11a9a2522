-- The risks of persons who are in several classes, where nothing links their rows: a person is found by the row whose class
-- holds the fewest persons. As prosecutor and sample_uniqueness, in persons.
-- param: threshold number > 0 <= 1 default 0.2: a person is at risk if its own risk is larger
SELECT
    AVG(CASE WHEN fewest * CAST(:threshold AS DOUBLE PRECISION) < 1 - 1e-12 THEN CAST(1 AS DOUBLE PRECISION) ELSE 0 END)
        AS records_at_risk,
    CAST(1 AS DOUBLE PRECISION) / MIN(fewest) AS highest,
    AVG(CAST(1 AS DOUBLE PRECISION) / fewest) AS average,
    CAST(SUM(CASE WHEN fewest = 1 THEN 1 ELSE 0 END) AS BIGINT) AS uniques,
    AVG(CASE WHEN fewest = 1 THEN CAST(1 AS DOUBLE PRECISION) ELSE 0 END) AS share
FROM (
    SELECT r.person, MIN(c.records) AS fewest
    FROM person_rows AS r
    JOIN classes AS c ON c.class_id = r.class_id
    GROUP BY r.person
) AS persons
