-- How far the published positions are from the original ones: positions, their sum, and the largest one.
SELECT
    COUNT(*) AS positions,
    COALESCE(SUM(distance), 0) AS moved,
    COALESCE(MAX(distance), 0) AS farthest
FROM (
    SELECT SQRT((p.x - s.x) * (p.x - s.x) + (p.y - s.y) * (p.y - s.y)) AS distance
    FROM positions AS p
    JOIN shifted AS s ON s.person = p.person AND s.tick = p.tick
) AS distances
