-- Who is found by what an attacker knows of persons with several rows: persons in all, and those whom nobody else equals in
-- all their rows, in one of their rows, or in how many rows they have.
SELECT
    COUNT(*) AS persons,
    CAST(SUM(CASE WHEN alike = 1 THEN 1 ELSE 0 END) AS BIGINT) AS by_all_rows,
    CAST(SUM(CASE WHEN fewest = 1 THEN 1 ELSE 0 END) AS BIGINT) AS by_one_row,
    CAST(SUM(CASE WHEN as_many = 1 THEN 1 ELSE 0 END) AS BIGINT) AS by_number
FROM (
    SELECT
        e.person,
        COUNT(*) OVER (PARTITION BY e.signature) AS alike,
        COUNT(*) OVER (PARTITION BY r.records) AS as_many,
        r.fewest
    FROM entities AS e
    JOIN (
        SELECT p.person, MIN(c.records) AS fewest, SUM(p.records) AS records
        FROM person_rows AS p
        JOIN classes AS c ON c.class_id = p.class_id
        GROUP BY p.person
    ) AS r ON r.person = e.person
) AS known
