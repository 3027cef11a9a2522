-- The classes of groups in which somebody is left.
SELECT p.group_id, p.version, p.class_id
FROM past AS p
WHERE p.group_id IN (SELECT group_id FROM moves WHERE class_id IS NULL)
