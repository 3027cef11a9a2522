-- Persons of one past and one present who are too few, or too much alike.
-- param: k integer: fewest persons
-- param: l integer: fewest different values
SELECT group_id, class_id
FROM (
    SELECT
        m.group_id,
        m.class_id,
        SUM(m.records) AS records,
        COUNT(DISTINCT m.value) AS different,
        COUNT(DISTINCT CASE WHEN x.value IS NULL THEN m.value END) AS known
    FROM moves AS m
    LEFT JOIN unknown AS x ON x.value = m.value
    WHERE m.class_id IS NOT NULL
    GROUP BY m.group_id, m.class_id
) AS cells
WHERE records < :k OR different < :l OR (:l > 1 AND known < :l)
