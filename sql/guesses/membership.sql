-- The attacker says that a person is in the table where a record fits them. About persons who are in the table that is
-- right; about others it is wrong. From the margins: the chance that any record fits, were columns independent.
-- cite: Yeom, Giacomelli, Fredrikson and Jha 2018; Giomi, Boenisch, Wehmeyer and Tasnadi 2023
-- measures: attacked, 1 where the attacker says that the person is in the table
-- needs: targets, control
WITH found AS (SELECT DISTINCT group_id FROM target_classes),
chances AS (
    SELECT group_id, SUM(LN(CASE WHEN share > 0 THEN share ELSE 1 END)) AS weight, MIN(share) AS least
    FROM fitting_shares
    GROUP BY group_id
),
whole AS (SELECT CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM classes)
SELECT
    t.group_id,
    t.value AS truth,
    CASE WHEN f.group_id IS NULL THEN 0 ELSE 1 END AS attacked,
    CASE
        WHEN c.least IS NULL OR c.least <= 0 OR w.records IS NULL THEN 0
        WHEN c.weight >= -1e-15 THEN 1
        ELSE 1 - EXP(GREATEST(w.records * LN(1 - EXP(GREATEST(c.weight, -700))), -700))
    END AS by_margins
FROM truths AS t
CROSS JOIN whole AS w
LEFT JOIN found AS f ON f.group_id = t.group_id
LEFT JOIN chances AS c ON c.group_id = t.group_id
