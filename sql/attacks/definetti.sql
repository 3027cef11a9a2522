-- Whoever knows the quasi-identifiers of the persons in a class learns from all classes together which values go with
-- which of them ("smokers have the lung diseases"), and so who in a class has which value, though each class is diverse.
-- Learned by naive Bayes, in rounds. No model of classes withstands it where the columns tell much about the value;
-- differential privacy bounds it. Where the persons are those of the source, only what is right counts.
-- cite: Kifer 2009
-- param: rounds integer >= 0 default 5: how often beliefs are revised
-- param: certainty number > 0 <= 1 default 0.9: a person is broken if so much is believed of it
-- measures: confidence, in the value that a person has; in the most likely one where that is not known
-- needs: targets, sensitive
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
