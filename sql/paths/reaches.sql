-- How far the k-th nearest path is, itself included, among all of the span, on average over the ticks. As paths go into
-- clusters it only gets farther: where this is beyond the radius, a path can never be a pivot.
-- param: k integer >= 1: paths of a cluster
SELECT person, MAX(distance) AS reach
FROM (
    SELECT person, distance, ROW_NUMBER() OVER (PARTITION BY person ORDER BY distance) AS place
    FROM (
        SELECT
            a.person,
            b.person AS other,
            CASE
                WHEN a.person = b.person THEN 0
                ELSE AVG(SQRT((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)))
            END AS distance
        FROM cut AS a
        JOIN cut AS b ON b.span = a.span AND b.tick = a.tick
        GROUP BY a.person, b.person
    ) AS pairs
) AS ordered
WHERE place <= :k
GROUP BY person
