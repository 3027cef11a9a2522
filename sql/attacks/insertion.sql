-- The attacker knows that a person is in a new release and not in the earlier one (an admission has a date), and takes
-- out the records of the new release that are old: the backward attack. Let G1 records with a value be in the earlier
-- classes that are comparable to a class, and G2 in the new classes that are comparable to those. The G1 persons are
-- among these G2, and the newcomer is one of the others. With --external the newcomers are the persons of the list;
-- without it there are as many newcomers as records that no earlier record explains. The attacker assumes that nobody
-- left between the releases; where no record remains, all of them stay possible. `bcf_anonymity` and
-- `incremental_l_diversity` withstand it.
-- cite: Fung, Wang, Fu and Pei 2008; Byun, Sohn, Bertino and Li 2006
-- param: certainty number > 0 <= 1 default 1: a person is broken if this share of the remaining records has one value
-- measures: confidence, that a newcomer has the most frequent value of the records that are not old
-- no_guess: who came between two releases is not known of the persons of one table
-- needs: other, sensitive, comparable
WITH earlier AS (
    SELECT c.class_id, w.value, SUM(w.records) AS records
    FROM comparable AS c
    JOIN other_named_values AS w ON w.class_id = c.other_id
    GROUP BY c.class_id, w.value
),
around AS (
    SELECT n.class_id, v.value, SUM(v.records) AS records
    FROM (
        SELECT DISTINCT a.class_id, b.class_id AS near_id
        FROM comparable AS a
        JOIN comparable AS b ON b.other_id = a.other_id
    ) AS n
    JOIN named_values AS v ON v.class_id = n.near_id
    GROUP BY n.class_id, v.value
),
remaining AS (
    SELECT
        v.class_id,
        v.value,
        v.records AS every,
        LEAST(v.records, GREATEST(COALESCE(a.records, v.records) - COALESCE(e.records, 0), 0)) AS records
    FROM named_values AS v
    LEFT JOIN around AS a ON a.class_id = v.class_id AND a.value = v.value
    LEFT JOIN earlier AS e ON e.class_id = v.class_id AND e.value = v.value
),
candidates AS (
    SELECT n.group_id, r.value, SUM(r.every) AS every, SUM(r.records) AS records
    FROM newcomers AS n
    JOIN remaining AS r ON r.class_id = n.class_id
    GROUP BY n.group_id, r.value
),
guesses AS (
    SELECT
        group_id,
        SUM(records) AS records,
        CASE
            WHEN SUM(records) > 0 THEN CAST(MAX(records) AS DOUBLE PRECISION) / SUM(records)
            ELSE CAST(MAX(every) AS DOUBLE PRECISION) / SUM(every)
        END AS confidence
    FROM candidates
    GROUP BY group_id
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT COALESCE(n.persons, g.records) AS persons, COALESCE(g.confidence, 0) AS confidence
    FROM (SELECT group_id, MAX(persons) AS persons FROM newcomers GROUP BY group_id) AS n
    LEFT JOIN guesses AS g ON g.group_id = n.group_id
) AS arrived
WHERE persons > 0
