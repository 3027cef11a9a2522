-- Values change places with values of a near rank.
-- cite: Moore 1996, Controlled data-swapping techniques for masking public use microdata sets
-- param: percent number: the largest distance of two ranks, in percent of all values
-- known(row_id, value): the values; drawn(row_id, value, shift, second): the same with two draws between 0 and 1 for each,
-- which is read once, since draws take longer than all else. NULL stays NULL.
-- Ranks are moved up at random by less than w = percent * n / 200 - 1, and neighbours in the new order change places.
-- Where they are not more than w + 1 apart there, their ranks differ by less than 2 * w + 1, which is below the distance
-- that is asked for; if all values differ they never are, since w + 1 ranks leave no gap that is longer. Equal values have
-- their ranks in any order: each lies somewhere in their range, which needs no sorting, and those who are too far apart
-- stay.
WITH counted AS (SELECT value, COUNT(*) AS n FROM known WHERE NOT value IS NULL GROUP BY value),
ranges AS (
    SELECT
        value,
        CAST(n - 1 AS DOUBLE PRECISION) AS width,
        CAST(SUM(n) OVER (ORDER BY value ROWS UNBOUNDED PRECEDING) - n AS DOUBLE PRECISION) AS low,
        ROW_NUMBER() OVER (ORDER BY value) - 1 AS code
    FROM counted
),
whole AS (SELECT CAST(SUM(n) AS DOUBLE PRECISION) AS n, COUNT(*) AS codes FROM counted),
-- A place and the value that lies there are one integer, which is sorted and handed on in half the time of both. Steps of
-- a place are as small as its 62 bits allow: at least two to a rank, since there are at most 10^9 values. Two places that
-- are cut off to steps seem nearer by less than one rank, which is what w leaves of the distance that is asked for.
reach AS (
    SELECT codes, w, FLOOR(4e18 / ((n + w + 1) * codes)) AS steps
    FROM (SELECT n, codes, :percent * n / 200 - 1 AS w FROM whole) AS sized
),
placed AS (
    SELECT
        d.row_id,
        CAST(FLOOR((r.low + d.second * r.width + d.shift * e.w) * e.steps) AS BIGINT) * e.codes + r.code AS place
    FROM drawn AS d
    JOIN ranges AS r ON r.value = d.value
    CROSS JOIN reach AS e
),
moved AS (
    SELECT
        row_id,
        place,
        ROW_NUMBER() OVER (ORDER BY place, row_id) AS number,
        LEAD(place) OVER (ORDER BY place, row_id) AS next_place,
        LAG(place) OVER (ORDER BY place, row_id) AS last_place
    FROM placed
),
swapped AS (
    SELECT
        m.row_id,
        CASE
            WHEN m.number % 2 = 1 AND m.next_place - m.place <= (e.w + 1) * e.steps * e.codes THEN m.next_place
            WHEN m.number % 2 = 0 AND m.place - m.last_place <= (e.w + 1) * e.steps * e.codes THEN m.last_place
            ELSE m.place
        END % e.codes AS code
    FROM moved AS m
    CROSS JOIN reach AS e
),
every_row AS (
    SELECT s.row_id, r.value FROM swapped AS s JOIN ranges AS r ON r.code = s.code
    UNION ALL
    SELECT row_id, value FROM known WHERE value IS NULL
)
SELECT row_id, value FROM every_row
