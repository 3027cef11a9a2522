-- The sensitive values of those of a group who are not in the new release.
WITH stayed AS (
    SELECT group_id, value, SUM(records) AS records FROM moves WHERE class_id IS NOT NULL GROUP BY group_id, value
)
SELECT g.group_id, g.value, CAST(GREATEST(g.records - COALESCE(s.records, 0), 0) AS BIGINT) AS records
FROM group_values AS g
LEFT JOIN stayed AS s ON s.group_id = g.group_id AND s.value = g.value
WHERE g.group_id IN (SELECT group_id FROM moves WHERE class_id IS NULL)
