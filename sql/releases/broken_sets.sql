-- The persons to hold back where a model across releases is broken. `broken` lists what breaks it: a new class and
-- an earlier one are the persons who are in both; a new class and a version are those of the class who were not in that
-- release; a new class alone is everybody in it; an earlier class alone are those who left it, too few or too much
-- alike: as many of those who stayed go with them as are lacking, taken in the order of their hashes.
-- param: least integer: what a model measures at least where it holds
SELECT person, original, group_id
FROM (
    SELECT m.person, m.original, m.group_id
    FROM members AS m
    JOIN past AS p ON p.group_id = m.group_id
    JOIN broken AS b ON b.class_id = m.class_id AND b.version = p.version AND b.past_class_id = p.class_id
    UNION
    SELECT m.person, m.original, m.group_id
    FROM members AS m
    JOIN broken AS b ON b.class_id = m.class_id
    LEFT JOIN past AS p ON p.group_id = m.group_id AND p.version = b.version
    WHERE b.past_class_id IS NULL AND p.group_id IS NULL
    UNION
    SELECT r.person, r.original, r.group_id
    FROM (
        SELECT
            m.person,
            m.original,
            m.group_id,
            :least - b.measured AS quota,
            ROW_NUMBER() OVER (PARTITION BY b.version, b.past_class_id ORDER BY m.person) AS place
        FROM broken AS b
        JOIN past AS p ON p.version = b.version AND p.class_id = b.past_class_id
        JOIN members AS m ON m.group_id = p.group_id
        WHERE b.class_id IS NULL
    ) AS r
    WHERE r.place <= r.quota
) AS held
