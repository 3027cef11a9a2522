-- Persons of one past and one present who are too few, or too much alike.
-- param: k integer: fewest persons
-- param: l integer: fewest different values
SELECT group_id, class_id
FROM (
    SELECT group_id, class_id, SUM(records) AS records, COUNT(DISTINCT value) AS different
    FROM moves
    WHERE class_id IS NOT NULL
    GROUP BY group_id, class_id
) AS cells
WHERE records < :k OR different < :l
