-- The attacker has a list of persons with their quasi-identifiers and takes the nearest records for theirs. It also
-- works where values were changed: small noise hides little. The distance of numbers is their difference as a share of
-- the range; other values are equal, covered by a label, or different. Each target is compared with each class, so for
-- many targets a sample is taken. Where the persons are those of the source, a record counts as theirs if it has their
-- value.
-- cite: Pagliuca and Seri 1999; Domingo-Ferrer and Torra 2001
-- param: certainty number > 0 <= 1 default 1: a person is broken if this share of the nearest records is theirs
-- measures: confidence, the share of the nearest records with a person's value; with the most frequent one, where that
--   is not known
-- needs: targets, sensitive
-- traits: nearest, slow
WITH least AS (SELECT group_id, MIN(distance) AS distance FROM distances GROUP BY group_id),
nearest AS (
    SELECT d.group_id, d.class_id
    FROM distances AS d
    JOIN least AS l ON l.group_id = d.group_id
    WHERE d.distance <= l.distance + 1e-9
),
found AS (
    SELECT n.group_id, CAST(SUM(c.records) AS DOUBLE PRECISION) AS records
    FROM nearest AS n
    JOIN classes AS c ON c.class_id = n.class_id
    GROUP BY n.group_id
),
guesses AS (
    SELECT n.group_id, v.value, SUM(v.records) AS records
    FROM nearest AS n
    JOIN named_values AS v ON v.class_id = n.class_id
    GROUP BY n.group_id, v.value
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-9 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT
        COALESCE(k.persons, t.persons) AS persons,
        LEAST(
            COALESCE(CASE WHEN k.group_id IS NULL THEN m.records ELSE g.records END, 0) / f.records, 1
        ) AS confidence
    FROM chosen_targets AS t
    JOIN found AS f ON f.group_id = t.group_id
    LEFT JOIN truths AS k ON k.group_id = t.group_id
    LEFT JOIN guesses AS g ON g.group_id = t.group_id AND g.value = k.value
    LEFT JOIN (SELECT group_id, MAX(records) AS records FROM guesses GROUP BY group_id) AS m
        ON m.group_id = t.group_id
) AS linked
