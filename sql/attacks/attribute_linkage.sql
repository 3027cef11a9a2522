-- The attacker has a list of persons with their quasi-identifiers and knows that they are in the table. They guess the
-- value that most of the matching records have, even where they do not know which record belongs to the person.
-- cite: Fung, Wang, Chen and Yu 2010
-- param: certainty number > 0 <= 1 default 1: a person is broken if this share of the records has one value
-- measures: confidence, that a listed person has the most frequent value of the matching records; 0 if none matches
-- needs: targets, sensitive
-- traits: beliefs, certain
WITH found AS (
    SELECT f.group_id, SUM(c.records) AS records
    FROM target_classes AS f
    JOIN classes AS c ON c.class_id = f.class_id
    GROUP BY f.group_id
),
guesses AS (
    SELECT group_id, MAX(records) AS records
    FROM (
        SELECT f.group_id, v.value, SUM(v.records) AS records
        FROM target_classes AS f
        JOIN class_values AS v ON v.class_id = f.class_id
        GROUP BY f.group_id, v.value
    ) AS shares
    GROUP BY group_id
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT
        t.persons,
        LEAST(COALESCE(CAST(g.records AS DOUBLE PRECISION) / f.records, 0), 1) AS confidence
    FROM targets AS t
    LEFT JOIN found AS f ON f.group_id = t.group_id
    LEFT JOIN guesses AS g ON g.group_id = t.group_id
) AS linked
