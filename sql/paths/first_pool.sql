-- All paths before the first cluster is made: how far each is from the middle of its span, on average over the ticks.
-- A path is open as a pivot if enough others are within the radius. `far` is the distance to the nearest former pivot,
-- `leader` the nearest pivot of a cluster and `near` its distance.
-- param: radius number: the largest distance to a pivot
SELECT
    c.person,
    c.span,
    AVG(SQRT((c.x - m.x) * (c.x - m.x) + (c.y - m.y) * (c.y - m.y))) AS center,
    CAST(NULL AS DOUBLE PRECISION) AS far,
    CASE WHEN MAX(r.reach) <= :radius THEN 1 ELSE 0 END AS open,
    CAST(NULL AS BIGINT) AS leader,
    CAST(NULL AS DOUBLE PRECISION) AS near
FROM cut AS c
JOIN reaches AS r ON r.person = c.person
JOIN (SELECT span, tick, AVG(x) AS x, AVG(y) AS y FROM cut GROUP BY span, tick) AS m
    ON m.span = c.span AND m.tick = c.tick
GROUP BY c.person, c.span
