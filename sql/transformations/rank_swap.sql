-- Values change places with values of a near rank.
-- cite: Moore 1996, Controlled data-swapping techniques for masking public use microdata sets
-- param: percent number: the largest distance of two ranks, in percent of all values
-- drawn(row_id, value, shift, second): the values, and two draws between 0 and 1 for each. NULL stays NULL.
-- Ranks are moved up at random by less than w = percent * n / 200 - 1, and neighbours in the new order change places.
-- Where they are not more than w + 1 apart there, their ranks differ by less than 2 * w + 1, which is below the distance
-- that is asked for; if all values differ they never are, since w + 1 ranks leave no gap that is longer. Equal values have
-- their ranks in any order: each lies somewhere in their range, which needs no sorting, and those who are too far apart
-- stay.
WITH counted AS (SELECT value, COUNT(*) AS n FROM drawn WHERE NOT value IS NULL GROUP BY value),
ranges AS (
    SELECT
        value,
        CAST(n - 1 AS DOUBLE PRECISION) AS width,
        CAST(SUM(n) OVER (ORDER BY value ROWS UNBOUNDED PRECEDING) - n AS DOUBLE PRECISION) AS low
    FROM counted
),
reach AS (SELECT CAST(:percent * SUM(n) / 200 - 1 AS DOUBLE PRECISION) AS w FROM counted),
placed AS (
    SELECT d.row_id, d.value, d.shift, r.low + d.second * r.width + d.shift * e.w AS place
    FROM drawn AS d
    JOIN ranges AS r ON r.value = d.value
    CROSS JOIN reach AS e
),
moved AS (
    SELECT
        row_id,
        value,
        place,
        ROW_NUMBER() OVER (ORDER BY place, shift) AS number,
        LEAD(value) OVER (ORDER BY place, shift) AS next_value,
        LAG(value) OVER (ORDER BY place, shift) AS last_value,
        LEAD(place) OVER (ORDER BY place, shift) AS next_place,
        LAG(place) OVER (ORDER BY place, shift) AS last_place
    FROM placed
),
swapped AS (
    SELECT
        m.row_id,
        CASE
            WHEN m.number % 2 = 1 AND m.next_place - m.place <= e.w + 1 THEN m.next_value
            WHEN m.number % 2 = 0 AND m.place - m.last_place <= e.w + 1 THEN m.last_value
            ELSE m.value
        END AS value
    FROM moved AS m
    CROSS JOIN reach AS e
    UNION ALL
    SELECT row_id, value FROM drawn WHERE value IS NULL
)
SELECT row_id, value FROM swapped
