-- Classes after the smallest children have come back as a whole to parents whose remaining rows break a model.
-- param: count integer: how many children come back
WITH back AS (
    SELECT parent, child
    FROM (
        SELECT s.parent, s.child, ROW_NUMBER() OVER (PARTITION BY s.parent ORDER BY SUM(s.n), s.child) AS place
        FROM split AS s
        JOIN lacking AS l ON l.class_id = s.parent
        WHERE s.child <> 0
        GROUP BY s.parent, s.child
    ) AS ranked
    WHERE place <= :count
)
SELECT s.parent, CASE WHEN b.child IS NULL THEN s.child ELSE 0 END AS child, s.cell, s.value, CAST(SUM(s.n) AS BIGINT) AS n
FROM split AS s
LEFT JOIN back AS b ON b.parent = s.parent AND b.child = s.child
GROUP BY s.parent, CASE WHEN b.child IS NULL THEN s.child ELSE 0 END, s.cell, s.value
