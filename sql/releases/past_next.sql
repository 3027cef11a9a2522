-- The classes that the groups of the new release had before.
SELECT g.next_id AS group_id, p.version, p.class_id
FROM next_groups AS g
JOIN past AS p ON p.group_id = g.group_id
