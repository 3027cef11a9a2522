-- The attacker knows that a person is in two releases and keeps the values that both leave possible (composition). If
-- one value is left, it is the person's. The models across releases `composition`, `m_invariance` and
-- `stable_partition` withstand it. A person who matches no record of the other release keeps the values that the first
-- one leaves.
-- cite: Ganta, Kasiviswanathan and Smith 2008
-- param: certainty number > 0 <= 1 default 1: a person is broken if the confidence is at least this
-- measures: confidence, 1 over the number of values that are left; 0 if none is left, because the releases disagree
-- no_guess: it narrows down which values are possible, and persons outside of the table are in neither release
-- needs: other, sensitive
WITH ours AS (
    SELECT DISTINCT f.group_id, v.value FROM target_classes AS f JOIN named_values AS v ON v.class_id = f.class_id
),
theirs AS (
    SELECT DISTINCT f.group_id, v.value
    FROM other_target_classes AS f
    JOIN other_named_values AS v ON v.class_id = f.class_id
),
remaining AS (
    SELECT o.group_id, COUNT(*) AS n
    FROM ours AS o
    LEFT JOIN theirs AS t ON t.group_id = o.group_id AND t.value = o.value
    LEFT JOIN (SELECT DISTINCT group_id FROM other_target_classes) AS k ON k.group_id = o.group_id
    WHERE t.group_id IS NOT NULL OR k.group_id IS NULL
    GROUP BY o.group_id
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT t.persons, COALESCE(CAST(1 AS DOUBLE PRECISION) / r.n, 0) AS confidence
    FROM targets AS t
    LEFT JOIN remaining AS r ON r.group_id = t.group_id
) AS narrowed
