-- The first and the last tick of each path, cut to multiples of a period; paths with the same ones are a span. A span of
-- very many paths is cut into strips of paths that are near each other on average, so that fewer pairs are compared.
-- A path that is shorter than a period is in no span.
-- cite: Abul, Bonchi and Nanni 2008, Never walk alone
-- param: period integer >= 1: ticks
-- param: most integer >= 1: the paths that one strip has at most, about
WITH ends AS (
    SELECT
        person,
        CAST(CEIL(CAST(MIN(tick) AS DOUBLE PRECISION) / :period) AS BIGINT) * :period AS first_tick,
        CAST(FLOOR(CAST(MAX(tick) AS DOUBLE PRECISION) / :period) AS BIGINT) * :period AS last_tick,
        AVG(x) AS x,
        AVG(y) AS y
    FROM positions
    GROUP BY person
),
sized AS (
    SELECT
        person,
        first_tick,
        last_tick,
        y,
        ROW_NUMBER() OVER (PARTITION BY first_tick, last_tick ORDER BY x, person) - 1 AS place,
        COUNT(*) OVER (PARTITION BY first_tick, last_tick) AS paths
    FROM ends
    WHERE first_tick <= last_tick
),
columns_of_strips AS (
    SELECT
        person,
        first_tick,
        last_tick,
        y,
        paths,
        FLOOR(place * CEIL(SQRT(CAST(paths AS DOUBLE PRECISION) / :most)) / paths) AS strip
    FROM sized
),
strips AS (
    SELECT
        person,
        first_tick,
        last_tick,
        strip,
        FLOOR(
            (ROW_NUMBER() OVER (PARTITION BY first_tick, last_tick, strip ORDER BY y, person) - 1)
            * CEIL(SQRT(CAST(paths AS DOUBLE PRECISION) / :most))
            / COUNT(*) OVER (PARTITION BY first_tick, last_tick, strip)
        ) AS part
    FROM columns_of_strips
)
SELECT
    person,
    DENSE_RANK() OVER (ORDER BY first_tick, last_tick, strip, part) AS span,
    first_tick,
    last_tick,
    COUNT(*) OVER (PARTITION BY first_tick, last_tick, strip, part) AS paths
FROM strips
