-- Groups of which too few persons left, or persons too much alike, and how many more have to.
-- param: k integer: fewest persons
-- param: everybody integer: more persons than there are
-- param: l integer: fewest different values
WITH different AS (
    SELECT v.group_id, COUNT(*) AS different, COUNT(*) - COUNT(x.value) AS known
    FROM left_values AS v
    LEFT JOIN unknown AS x ON x.value = v.value
    WHERE v.records > 0
    GROUP BY v.group_id
)
SELECT g.group_id, CASE WHEN g.records < :k THEN :k - g.records ELSE :everybody END AS quota
FROM moves AS g
LEFT JOIN different AS d ON d.group_id = g.group_id
WHERE
    g.class_id IS NULL
    AND (
        g.records < :k OR COALESCE(d.different, 0) < :l OR (:l > 1 AND COALESCE(d.known, 0) < :l)
    )
