-- The attacker knows the quasi-identifiers of the persons in a class. From all classes together they learn which values
-- go with which quasi-identifiers ("smokers have the lung diseases"), and so which person of a class has which value,
-- although each class is diverse. The attack learns with naive Bayes, in rounds. No model of classes withstands it
-- where the columns tell much about the value; differential privacy bounds it. Where the persons are those of the
-- source, only right conclusions count.
-- cite: Kifer 2009
-- param: rounds integer >= 0 default 5: rounds in which beliefs are revised
-- param: certainty number > 0 <= 1 default 0.9: a person is broken if the belief in their value is at least this
-- measures: confidence, in the value that a person has; in the most likely one if that is not known
-- needs: targets, sensitive
-- traits: beliefs, likely, slow
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-9 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT
        COALESCE(k.persons, t.persons) AS persons,
        COALESCE(CASE WHEN k.group_id IS NULL THEN m.belief ELSE b.belief END, 0) AS confidence
    FROM targets AS t
    LEFT JOIN truths AS k ON k.group_id = t.group_id
    LEFT JOIN beliefs AS b ON b.group_id = t.group_id AND b.value = k.value
    LEFT JOIN (SELECT group_id, MAX(belief) AS belief FROM beliefs GROUP BY group_id) AS m ON m.group_id = t.group_id
) AS guessed
