-- Classes after the accepted donations. Of the rows alike in a child those in small cells go first: they are the least
-- likely to be specialized further.
WITH touched AS (SELECT DISTINCT parent FROM accepted),
running AS (
    SELECT
        s.parent,
        s.child,
        s.cell,
        s.value,
        s.n,
        COALESCE(a.given, 0)
        - SUM(s.n) OVER (
            PARTITION BY s.parent, s.child, s.value ORDER BY s.n, s.cell
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        )
        + s.n AS wanted
    FROM split AS s
    JOIN touched AS t ON t.parent = s.parent
    LEFT JOIN accepted AS a ON a.parent = s.parent AND a.child = s.child AND a.value = s.value
),
cut AS (
    SELECT parent, child, cell, value, n, LEAST(n, GREATEST(0, wanted)) AS given FROM running
)
SELECT parent, child, cell, value, n
FROM (
    SELECT parent, child, cell, value, CAST(SUM(n) AS BIGINT) AS n
    FROM (
        SELECT parent, child, cell, value, n - given AS n FROM cut WHERE given < n
        UNION ALL
        SELECT parent, 0, cell, value, given FROM cut WHERE given > 0
    ) AS parts
    GROUP BY parent, child, cell, value
    UNION ALL
    SELECT s.parent, s.child, s.cell, s.value, s.n
    FROM split AS s
    WHERE NOT EXISTS (SELECT 1 FROM touched AS t WHERE t.parent = s.parent)
) AS whole
