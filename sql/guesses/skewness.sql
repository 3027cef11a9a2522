-- The attacker guesses the value whose probability rises most from the whole release to the records that fit a person.
-- They guess only where it rises by more than `gain`.
-- cite: Li, Li and Venkatasubramanian 2007; Giomi, Boenisch, Wehmeyer and Tasnadi 2023
-- param: gain number >= 0 <= 1 default 0.2: a guess is made where the probability of a value rises by more than this
-- measures: attacked, 1 where the guess is right, 0 where it is wrong, NULL where none is made
-- needs: targets, sensitive
WITH ranked AS (
    SELECT
        b.group_id,
        b.value,
        b.share - CAST(m.records AS DOUBLE PRECISION) / w.records AS gain,
        ROW_NUMBER() OVER (
            PARTITION BY b.group_id
            ORDER BY b.share - CAST(m.records AS DOUBLE PRECISION) / w.records DESC, m.records DESC, MD5(b.value)
        ) AS place
    FROM beliefs AS b
    JOIN margins AS m ON m.value = b.value
    CROSS JOIN (SELECT SUM(records) AS records FROM margins) AS w
),
usual AS (SELECT value, ROW_NUMBER() OVER (ORDER BY records DESC, MD5(value)) AS place FROM margins)
SELECT
    t.group_id,
    t.value AS truth,
    CASE WHEN g.value IS NULL THEN NULL WHEN g.value = t.value THEN 1 ELSE 0 END AS attacked,
    CASE WHEN u.value = t.value THEN 1 ELSE 0 END AS by_margins
FROM truths AS t
JOIN usual AS u ON u.place = 1
LEFT JOIN ranked AS g ON g.group_id = t.group_id AND g.place = 1 AND g.gain > :gain + 1e-9
