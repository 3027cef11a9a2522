-- The attacker guesses the kind of a person's value: the one that most of the records that fit them have. Kinds are the
-- nodes of the attribute's hierarchy on one level. A guess is right where the person's value is of that kind.
-- cite: Li, Li and Venkatasubramanian 2007; Giomi, Boenisch, Wehmeyer and Tasnadi 2023
-- measures: attacked, 1 where the guess is right, 0 where it is wrong, NULL where none is made
-- needs: targets, sensitive, taxonomy
WITH whole AS (
    SELECT k.kind, SUM(m.records) AS records FROM margins AS m JOIN kinds AS k ON k.value = m.value GROUP BY k.kind
),
believed AS (
    SELECT b.group_id, k.kind, SUM(b.share) AS share
    FROM beliefs AS b
    JOIN margins AS m ON m.value = b.value
    JOIN kinds AS k ON k.value = b.value
    GROUP BY b.group_id, k.kind
),
ranked AS (
    SELECT
        b.group_id,
        b.kind,
        -- Shares are sums, which engines add up in any order: what is nearly equal is equal.
        ROW_NUMBER() OVER (
            PARTITION BY b.group_id ORDER BY ROUND(CAST(b.share AS NUMERIC(20, 12)), 9) DESC, w.records DESC, MD5(b.kind)
        ) AS place
    FROM believed AS b
    JOIN whole AS w ON w.kind = b.kind
),
usual AS (SELECT kind, ROW_NUMBER() OVER (ORDER BY records DESC, MD5(kind)) AS place FROM whole)
SELECT
    t.group_id,
    t.value AS truth,
    CASE WHEN g.kind IS NULL THEN NULL WHEN g.kind = k.kind THEN 1 ELSE 0 END AS attacked,
    CASE WHEN u.kind = k.kind THEN 1 ELSE 0 END AS by_margins
FROM truths AS t
JOIN kinds AS k ON k.value = t.value
JOIN usual AS u ON u.place = 1
LEFT JOIN ranked AS g ON g.group_id = t.group_id AND g.place = 1
