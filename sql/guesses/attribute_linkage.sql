-- The attacker guesses the value that most of the records that fit a person have. They guess about everybody whom a
-- record fits. Of values that are equally frequent they take the one that the release shows more often, then any.
-- cite: Giomi, Boenisch, Wehmeyer and Tasnadi 2023
-- measures: attacked, 1 where the guess is right, 0 where it is wrong, NULL where none is made
-- needs: targets, sensitive
WITH ranked AS (
    SELECT
        b.group_id,
        b.value,
        ROW_NUMBER() OVER (PARTITION BY b.group_id ORDER BY b.share DESC, m.records DESC, MD5(b.value)) AS place
    FROM beliefs AS b
    JOIN margins AS m ON m.value = b.value
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
