-- Whoever knows all public items of a person finds their group, and no private item is had by more than one in p of the
-- persons of a group. Public items are shown as they are, private ones only as how many persons of a group have them:
-- as `permutation` does. In a source everybody is a group of their own, so that whoever has a private item breaks it.
-- It does not hide who is in the data, nor public items; a private item that goes with public ones in all groups is
-- guessed better than 1/p by whoever learns that from them.
-- cite: Ghinita, Tao and Kalnis 2008, On the anonymization of sparse high-dimensional data
-- param: p integer >= 2: a private item is had by at most one in p of the persons of a group
-- param: private list: the private items
-- measures: largest share of a private item in a group; worse when larger
-- needs: items, private_items
-- classes: groups
-- shapes: set
-- monotone: yes
SELECT class_id, measured
FROM (
    SELECT c.class_id, CAST(COALESCE(v.records, 0) AS DOUBLE PRECISION) / c.records AS measured
    FROM classes AS c
    LEFT JOIN (SELECT class_id, MAX(records) AS records FROM class_values GROUP BY class_id) AS v
        ON v.class_id = c.class_id
) AS shares
WHERE measured > 1.0 / :p + 1e-12
