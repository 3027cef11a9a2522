-- How wrong counts in boxes are: paths are counted in every box of a square grid and every interval of time, before and
-- after; the sum of the differences over the sum of the original counts. One interval gives the error of the density.
-- cite: Abul, Bonchi and Nanni 2008, Never walk alone
-- param: boxes integer >= 1: how many boxes there are on each side
-- param: intervals integer >= 1: how many intervals of time there are
WITH ends AS (
    SELECT
        MIN(x) AS low_x,
        NULLIF(MAX(x) - MIN(x), 0) AS wide,
        MIN(y) AS low_y,
        NULLIF(MAX(y) - MIN(y), 0) AS high,
        MIN(tick) AS low_tick,
        MAX(tick) - MIN(tick) + 1 AS ticks
    FROM positions
),
places AS (
    SELECT DISTINCT
        b.side,
        b.person,
        LEAST(FLOOR(COALESCE((b.x - e.low_x) / e.wide, 0) * :boxes), :boxes - 1) AS across,
        LEAST(FLOOR(COALESCE((b.y - e.low_y) / e.high, 0) * :boxes), :boxes - 1) AS up,
        FLOOR(CAST((b.tick - e.low_tick) AS DOUBLE PRECISION) * :intervals / e.ticks) AS part
    FROM (
        SELECT 0 AS side, person, tick, x, y FROM positions
        UNION ALL
        SELECT 1 AS side, person, tick, x, y FROM shifted
    ) AS b
    CROSS JOIN ends AS e
)
SELECT COALESCE(CAST(SUM(ABS(before - after)) AS DOUBLE PRECISION) / NULLIF(SUM(before), 0), 0) AS error
FROM (
    SELECT
        across,
        up,
        part,
        SUM(CASE WHEN side = 0 THEN 1 ELSE 0 END) AS before,
        SUM(CASE WHEN side = 1 THEN 1 ELSE 0 END) AS after
    FROM places
    GROUP BY across, up, part
) AS counted
