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
SELECT parent, child, cell, value, n
FROM (
    SELECT s.parent, CAST(0 AS BIGINT) AS child, s.cell, s.value, CAST(SUM(s.n) AS BIGINT) AS n
    FROM split AS s
    JOIN lacking AS l ON l.class_id = s.parent
    LEFT JOIN back AS b ON b.parent = s.parent AND b.child = s.child
    WHERE s.child = 0 OR b.child IS NOT NULL
    GROUP BY s.parent, s.cell, s.value
    UNION ALL
    SELECT s.parent, s.child, s.cell, s.value, s.n
    FROM split AS s
    LEFT JOIN lacking AS l ON l.class_id = s.parent
    LEFT JOIN back AS b ON b.parent = s.parent AND b.child = s.child
    WHERE l.class_id IS NULL OR (s.child <> 0 AND b.child IS NULL)
) AS whole
