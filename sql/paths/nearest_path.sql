-- Somebody knows where a person was at each tick and takes the published path that is nearest on average, among those
-- that begin and end when the path of this person does. Paths that are equally near are equally likely.
-- cite: Trujillo-Rasua and Domingo-Ferrer 2013, On the privacy offered by (k, delta)-anonymity
-- param: one_in integer >= 1: one person of so many is a target
WITH near AS (
    SELECT
        o.person,
        s.person AS other,
        AVG(SQRT((o.x - s.x) * (o.x - s.x) + (o.y - s.y) * (o.y - s.y))) AS distance
    FROM cut AS o
    JOIN spans AS own ON own.person = o.person
    JOIN shifted AS s ON s.tick = o.tick
    JOIN spans AS theirs
        ON theirs.person = s.person AND theirs.first_tick = own.first_tick AND theirs.last_tick = own.last_tick
    WHERE MOD(o.person, :one_in) = 0
    GROUP BY o.person, s.person
),
closest AS (
    SELECT person, other, distance, MIN(distance) OVER (PARTITION BY person) AS least
    FROM near
),
guesses AS (
    SELECT
        person,
        CAST(MAX(CASE WHEN other = person THEN 1 ELSE 0 END) AS DOUBLE PRECISION) / COUNT(*) AS confidence
    FROM closest
    WHERE distance <= least * (1 + 1e-9) + 1e-12
    GROUP BY person
)
SELECT COUNT(*) AS persons, confidence
FROM guesses
GROUP BY confidence
