-- The attacker guesses about a person only where all records that fit them have one value: that one.
-- cite: Machanavajjhala, Gehrke, Kifer and Venkitasubramaniam 2006; Giomi, Boenisch, Wehmeyer and Tasnadi 2023
-- measures: attacked, 1 where the guess is right, 0 where it is wrong, NULL where none is made
-- needs: targets, sensitive
WITH alone AS (
    SELECT b.group_id, MIN(m.value) AS value
    FROM beliefs AS b
    LEFT JOIN margins AS m ON m.value = b.value
    GROUP BY b.group_id
    HAVING COUNT(*) = 1
),
usual AS (SELECT value, ROW_NUMBER() OVER (ORDER BY records DESC, MD5(value)) AS place FROM margins)
SELECT
    t.group_id,
    t.value AS truth,
    CASE WHEN g.value IS NULL THEN NULL WHEN g.value = t.value THEN 1 ELSE 0 END AS attacked,
    CASE WHEN u.value = t.value THEN 1 ELSE 0 END AS by_margins
FROM truths AS t
JOIN usual AS u ON u.place = 1
LEFT JOIN alone AS g ON g.group_id = t.group_id
