-- In every span, the path that is farthest from former pivots, and at the start from the middle, is the next pivot. Its
-- cluster are the nearest paths of the pool, itself included; it is accepted if there are k of them within the radius.
-- cite: Abul, Bonchi and Nanni 2008, Never walk alone
-- param: k integer >= 1: paths of a cluster
-- param: radius number: the largest distance to the pivot, on average over the ticks
WITH pivots AS (
    SELECT span, person AS leader
    FROM (
        SELECT span, person, ROW_NUMBER() OVER (PARTITION BY span ORDER BY COALESCE(far, center) DESC, person) AS place
        FROM pool
        WHERE open = 1
    ) AS ordered
    WHERE place = 1
),
measured AS (
    SELECT
        v.span,
        v.leader,
        b.person,
        AVG(SQRT((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y))) AS distance
    FROM pivots AS v
    JOIN cut AS a ON a.person = v.leader
    JOIN cut AS b ON b.span = v.span AND b.tick = a.tick
    JOIN pool AS p ON p.person = b.person
    GROUP BY v.span, v.leader, b.person
),
placed AS (
    SELECT
        span,
        leader,
        person,
        distance,
        ROW_NUMBER() OVER (
            PARTITION BY span ORDER BY CASE WHEN person = leader THEN 0 ELSE 1 END, distance, person
        ) AS place,
        COUNT(*) OVER (PARTITION BY span) AS paths
    FROM measured
)
SELECT
    span,
    leader,
    person,
    distance,
    place,
    CASE
        WHEN paths >= :k
            AND MAX(CASE WHEN place <= :k THEN distance END) OVER (PARTITION BY span) <= :radius THEN 1
        ELSE 0
    END AS accepted
FROM placed
