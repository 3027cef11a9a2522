-- The attacker finds the class of a person and compares how likely each value is there with how likely it is in the
-- whole table, which everybody knows. A class may have many values and still tell much. t-closeness (equal distance)
-- with t of no more than `gain` withstands it.
-- cite: Li, Li and Venkatasubramanian 2007
-- param: gain number >= 0 <= 1 default 0.2: a person is broken if the probability of a value rises by more than this
-- measures: confidence, in the value whose probability rises most
-- needs: sensitive
WITH sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM class_values GROUP BY class_id
),
whole AS (
    SELECT t.value, CAST(t.records AS DOUBLE PRECISION) / w.records AS share
    FROM totals AS t
    CROSS JOIN (SELECT SUM(records) AS records FROM totals) AS w
),
gains AS (
    SELECT
        v.class_id,
        v.records / s.records AS share,
        v.records / s.records - w.share AS gain,
        ROW_NUMBER() OVER (PARTITION BY v.class_id ORDER BY v.records / s.records - w.share DESC, v.value) AS place
    FROM class_values AS v
    JOIN sizes AS s ON s.class_id = v.class_id
    JOIN whole AS w ON w.value = v.value
)
SELECT
    c.records AS persons,
    g.share AS confidence,
    CASE WHEN g.gain > :gain + 1e-9 THEN 1 ELSE 0 END AS broken
FROM classes AS c
JOIN gains AS g ON g.class_id = c.class_id
WHERE g.place = 1
