-- The sensitive values of a group of the new release.
-- param: attribute text: sensitive column
SELECT CAST(:attribute AS TEXT) AS attribute, g.next_id AS group_id, m.value, m.records
FROM next_groups AS g
JOIN moves AS m ON m.group_id = g.group_id AND m.class_id = g.class_id
