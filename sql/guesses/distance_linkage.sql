-- The attacker takes the nearest records for those of a person, and guesses the value that most of them have. For many
-- persons a sample is taken. With a class for each record this is the inference attack of Anonymeter.
-- cite: Giomi, Boenisch, Wehmeyer and Tasnadi 2023
-- measures: attacked, 1 where the guess is right, 0 where it is wrong, NULL where none is made
-- needs: targets, sensitive
WITH least AS (SELECT group_id, MIN(distance) AS distance FROM distances GROUP BY group_id),
nearest AS (
    SELECT d.group_id, v.value, SUM(v.records) AS records
    FROM distances AS d
    JOIN least AS l ON l.group_id = d.group_id
    JOIN named_values AS v ON v.class_id = d.class_id
    WHERE d.distance <= l.distance + 1e-9
    GROUP BY d.group_id, v.value
),
ranked AS (
    SELECT
        n.group_id,
        n.value,
        ROW_NUMBER() OVER (PARTITION BY n.group_id ORDER BY n.records DESC, m.records DESC, MD5(n.value)) AS place
    FROM nearest AS n
    JOIN margins AS m ON m.value = n.value
),
usual AS (SELECT value, ROW_NUMBER() OVER (ORDER BY records DESC, MD5(value)) AS place FROM margins)
SELECT
    t.group_id,
    t.value AS truth,
    CASE WHEN g.value IS NULL THEN NULL WHEN g.value = t.value THEN 1 ELSE 0 END AS attacked,
    CASE WHEN u.value = t.value THEN 1 ELSE 0 END AS by_margins
FROM truths AS t
JOIN usual AS u ON u.place = 1
LEFT JOIN ranked AS g ON g.group_id = t.group_id AND g.place = 1
