-- The attacker rules out values that a person does not have, the most frequent ones among the records that fit them,
-- and guesses the most frequent value that is left. Who guesses from the margins has the same values ruled out.
-- cite: Machanavajjhala, Gehrke, Kifer and Venkitasubramaniam 2006; Giomi, Boenisch, Wehmeyer and Tasnadi 2023
-- param: knowledge integer >= 0 default 1: how many values the attacker can rule out
-- measures: attacked, 1 where the guess is right, 0 where it is wrong, NULL where none is made
-- needs: targets, sensitive
WITH possible AS (
    SELECT
        t.group_id,
        t.value AS truth,
        b.value,
        b.share,
        m.records,
        CASE WHEN b.value = t.value THEN 0 ELSE 1 END AS other
    FROM truths AS t
    JOIN beliefs AS b ON b.group_id = t.group_id
    JOIN margins AS m ON m.value = b.value
),
placed AS (
    SELECT
        group_id, truth, value, share, records, other,
        ROW_NUMBER() OVER (PARTITION BY group_id, truth, other ORDER BY share DESC, records DESC, MD5(value)) AS place
    FROM possible
),
remaining AS (
    SELECT
        group_id,
        truth,
        value,
        ROW_NUMBER() OVER (PARTITION BY group_id, truth ORDER BY share DESC, records DESC, MD5(value)) AS place
    FROM placed
    WHERE other = 0 OR place > :knowledge
),
usual AS (SELECT value, ROW_NUMBER() OVER (ORDER BY records DESC, MD5(value)) AS place FROM margins),
unexcluded AS (
    SELECT t.group_id, t.value AS truth, MIN(u.place) AS place
    FROM truths AS t
    JOIN usual AS u ON u.place <= :knowledge + 1
    LEFT JOIN placed AS p
        ON p.group_id = t.group_id AND p.truth = t.value AND p.value = u.value AND p.other = 1 AND p.place <= :knowledge
    WHERE p.group_id IS NULL
    GROUP BY t.group_id, t.value
)
SELECT
    t.group_id,
    t.value AS truth,
    CASE WHEN g.value IS NULL THEN NULL WHEN g.value = t.value THEN 1 ELSE 0 END AS attacked,
    CASE WHEN u.value = t.value THEN 1 ELSE 0 END AS by_margins
FROM truths AS t
LEFT JOIN remaining AS g ON g.group_id = t.group_id AND g.truth = t.value AND g.place = 1
LEFT JOIN unexcluded AS x ON x.group_id = t.group_id AND x.truth = t.value
LEFT JOIN usual AS u ON u.place = x.place
