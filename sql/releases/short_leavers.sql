-- Groups of which too few persons left, or persons too much alike, and how many more have to.
-- param: k integer: fewest persons
-- param: everybody integer: more persons than there are
-- param: l integer: fewest different values
WITH different AS (
    SELECT group_id, COUNT(*) AS different FROM left_values WHERE records > 0 GROUP BY group_id
)
SELECT g.group_id, CASE WHEN g.records < :k THEN :k - g.records ELSE :everybody END AS quota
FROM moves AS g
LEFT JOIN different AS d ON d.group_id = g.group_id
WHERE g.class_id IS NULL AND (g.records < :k OR COALESCE(d.different, 0) < :l)
