-- The values that are possible for those who left.
-- param: attribute text: sensitive column
SELECT CAST(:attribute AS TEXT) AS attribute, c.group_id, c.value
FROM candidates AS c
WHERE c.group_id IN (SELECT group_id FROM moves WHERE class_id IS NULL)
