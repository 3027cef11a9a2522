-- Each published group with its paths and the largest distance of two of them at one tick; `gaps` is the number of
-- positions that are missing, so that all paths of a group have the same ticks, that are there twice, or not known.
-- cite: Abul, Bonchi and Nanni 2008, Never walk alone
WITH sizes AS (
    SELECT
        group_id,
        COUNT(DISTINCT path) AS paths,
        COUNT(DISTINCT tick) AS ticks,
        COUNT(*) AS points,
        COUNT(*) - COUNT(x + y) AS unknown
    FROM published
    GROUP BY group_id
),
cells AS (
    SELECT group_id, COUNT(*) AS points
    FROM (SELECT DISTINCT group_id, path, tick FROM published) AS distinct_points
    GROUP BY group_id
),
pairs AS (
    SELECT
        a.group_id,
        MAX(SQRT((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y))) AS distance
    FROM published AS a
    JOIN published AS b ON b.group_id = a.group_id AND b.tick = a.tick AND b.path > a.path
    GROUP BY a.group_id
)
SELECT
    s.group_id AS class_id,
    s.paths AS records,
    s.paths * s.ticks - c.points + s.points - c.points + s.unknown AS gaps,
    COALESCE(p.distance, 0) AS distance
FROM sizes AS s
JOIN cells AS c ON c.group_id = s.group_id
LEFT JOIN pairs AS p ON p.group_id = s.group_id
