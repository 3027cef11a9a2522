-- The attacker knows that a person is in an earlier release and in the new one, and finds their class in both. Of the
-- records with one value, no more than the smaller number of the two classes can belong to persons who are in both, so
-- the attacker rules out the rest (the forward attack in the earlier release, the cross attack in the new one).
-- bcf_anonymity withstands it; it also covers persons who are only in the new release.
-- cite: Fung, Wang, Fu and Pei 2008
-- param: certainty number > 0 <= 1 default 1: a person is broken if the confidence is at least this
-- measures: confidence, 1 over the number of records that are left; 0 if a person matches no pair of classes
-- no_guess: it narrows down how many records are possible, and guesses none of them
-- needs: other, sensitive
WITH pairs AS (
    SELECT f.group_id, f.class_id, g.class_id AS other_id
    FROM target_classes AS f
    JOIN other_target_classes AS g ON g.group_id = f.group_id
),
shared AS (
    SELECT p.class_id, p.other_id, SUM(LEAST(v.records, w.records)) AS records
    FROM (SELECT DISTINCT class_id, other_id FROM pairs) AS p
    JOIN named_values AS v ON v.class_id = p.class_id
    JOIN other_named_values AS w ON w.class_id = p.other_id AND w.value = v.value
    GROUP BY p.class_id, p.other_id
),
remaining AS (
    SELECT p.group_id, CAST(SUM(s.records) AS DOUBLE PRECISION) AS records
    FROM pairs AS p
    JOIN shared AS s ON s.class_id = p.class_id AND s.other_id = p.other_id
    GROUP BY p.group_id
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT t.persons, COALESCE(1 / r.records, 0) AS confidence
    FROM targets AS t
    LEFT JOIN remaining AS r ON r.group_id = t.group_id
) AS narrowed
