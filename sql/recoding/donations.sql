-- What children could give back to a parent whose remaining rows break a model: donation by donation the rows of each
-- sensitive value. Rows are taken as water fills a vessel: first those of values that the parent has least of, so that
-- few rows make it diverse. A donation fills it up to `height - 1`, and by one row more for the first `width` values.
-- param: donors integer: how many of the largest children are asked
WITH remaining AS (
    SELECT s.parent, s.value, SUM(s.n) AS n
    FROM split AS s
    JOIN lacking AS l ON l.class_id = s.parent
    WHERE s.child = 0
    GROUP BY s.parent, s.value
),
owned AS (
    SELECT s.parent, s.child, s.value, SUM(s.n) AS n
    FROM split AS s
    JOIN lacking AS l ON l.class_id = s.parent
    WHERE s.child <> 0
    GROUP BY s.parent, s.child, s.value
),
donors AS (
    SELECT parent, child, ROW_NUMBER() OVER (PARTITION BY parent ORDER BY SUM(n) DESC, child) AS place
    FROM owned
    GROUP BY parent, child
),
filling AS (
    SELECT
        o.parent,
        o.child,
        o.value,
        o.n AS owned,
        COALESCE(r.n, 0) AS held,
        MAX(COALESCE(r.n, 0) + o.n) OVER (PARTITION BY o.parent, o.child) AS top
    FROM owned AS o
    JOIN donors AS d ON d.parent = o.parent AND d.child = o.child
    LEFT JOIN remaining AS r ON r.parent = o.parent AND r.value = o.value
    WHERE d.place <= :donors
),
filled AS (
    SELECT
        f.parent,
        f.child,
        f.value,
        f.owned,
        h.number AS height,
        LEAST(f.owned, GREATEST(0, h.number - 1 - f.held)) AS below,
        CASE WHEN h.number - f.held BETWEEN 1 AND f.owned THEN 1 ELSE 0 END AS more
    FROM filling AS f
    JOIN grid AS h ON h.number <= f.top
),
ranked AS (
    SELECT
        parent,
        child,
        value,
        owned,
        height,
        below,
        more,
        SUM(more) OVER (PARTITION BY parent, child, height) AS widest,
        ROW_NUMBER() OVER (PARTITION BY parent, child, height ORDER BY more DESC, owned DESC, value) AS place
    FROM filled
)
SELECT
    DENSE_RANK() OVER (ORDER BY r.parent, r.child, r.height, w.number) AS donation,
    r.parent,
    r.child,
    r.value,
    CAST(r.below + CASE WHEN r.place <= w.number THEN r.more ELSE 0 END AS BIGINT) AS given,
    CAST(r.owned - r.below - CASE WHEN r.place <= w.number THEN r.more ELSE 0 END AS BIGINT) AS kept
FROM ranked AS r
JOIN grid AS w ON w.number <= r.widest
