-- The sensitive values of those of a group who are not in the new release: those of the group, without the values of
-- those who stayed. Where somebody who stayed has another value now, more values are left than persons: as many may be
-- theirs, so of each value that many are taken off, and what remains is surely a value of somebody who left.
WITH stayed AS (
    SELECT group_id, value, SUM(records) AS records FROM moves WHERE class_id IS NOT NULL GROUP BY group_id, value
),
gone AS (
    SELECT group_id, SUM(records) AS records FROM moves WHERE class_id IS NULL GROUP BY group_id
),
rest AS (
    SELECT g.group_id, g.value, GREATEST(g.records - COALESCE(s.records, 0), 0) AS records
    FROM group_values AS g
    LEFT JOIN stayed AS s ON s.group_id = g.group_id AND s.value = g.value
    WHERE g.group_id IN (SELECT group_id FROM gone)
),
excess AS (
    SELECT r.group_id, SUM(r.records) - MAX(l.records) AS records
    FROM rest AS r
    JOIN gone AS l ON l.group_id = r.group_id
    GROUP BY r.group_id
)
SELECT r.group_id, r.value, CAST(GREATEST(r.records - GREATEST(e.records, 0), 0) AS BIGINT) AS records
FROM rest AS r
JOIN excess AS e ON e.group_id = r.group_id
