-- The attacker does not know whether a person is in the table. Where exactly one record fits, they say that it is the
-- person's. About persons who are in the table that is right; about others it is a false link, and the more of those
-- there are, the less a link tells. From the margins: the chance that exactly one record fits, were columns independent.
-- cite: Cohen and Nissim 2020; Giomi, Boenisch, Wehmeyer and Tasnadi 2023
-- measures: attacked, 1 where the attacker links the person to a record
-- needs: targets
WITH found AS (
    SELECT f.group_id, SUM(c.records) AS records
    FROM target_classes AS f
    JOIN classes AS c ON c.class_id = f.class_id
    GROUP BY f.group_id
),
chances AS (
    SELECT group_id, SUM(LN(CASE WHEN share > 0 THEN share ELSE 1 END)) AS weight, MIN(share) AS least
    FROM fitting_shares
    GROUP BY group_id
),
whole AS (SELECT CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM classes)
SELECT
    t.group_id,
    t.value AS truth,
    CASE WHEN f.records = 1 THEN 1 ELSE 0 END AS attacked,
    CASE
        WHEN c.least IS NULL OR c.least <= 0 OR w.records IS NULL THEN 0
        WHEN c.weight >= -1e-15 THEN CASE WHEN w.records = 1 THEN 1 ELSE 0 END
        -- An engine may refuse a number that is too small for its type.
        ELSE EXP(GREATEST(
            LN(w.records) + c.weight + (w.records - 1) * LN(1 - EXP(GREATEST(c.weight, -700))), -700
        ))
    END AS by_margins
FROM truths AS t
CROSS JOIN whole AS w
LEFT JOIN found AS f ON f.group_id = t.group_id
LEFT JOIN chances AS c ON c.group_id = t.group_id
