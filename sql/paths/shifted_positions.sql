-- Space translation: a point that is farther than half of delta from the mean of its cluster at its tick moves towards
-- the mean until it is that far, so that all paths of a cluster are within delta of each other.
-- cite: Abul, Bonchi and Nanni 2008, Never walk alone
-- param: delta number >= 0: the largest distance of two paths of a cluster
WITH placed AS (
    SELECT
        c.leader,
        p.person,
        p.tick,
        p.x,
        p.y,
        m.x AS mean_x,
        m.y AS mean_y,
        SQRT((p.x - m.x) * (p.x - m.x) + (p.y - m.y) * (p.y - m.y)) AS distance
    FROM cut AS p
    JOIN clusters AS c ON c.person = p.person
    JOIN (
        SELECT c.leader, p.tick, AVG(p.x) AS x, AVG(p.y) AS y
        FROM cut AS p
        JOIN clusters AS c ON c.person = p.person
        GROUP BY c.leader, p.tick
    ) AS m ON m.leader = c.leader AND m.tick = p.tick
)
SELECT
    leader,
    person,
    tick,
    CASE WHEN distance <= :delta / 2 THEN x ELSE mean_x + (x - mean_x) * (:delta / 2 / distance) END AS x,
    CASE WHEN distance <= :delta / 2 THEN y ELSE mean_y + (y - mean_y) * (:delta / 2 / distance) END AS y
FROM placed
