-- Values change places with values of a near rank.
-- cite: Moore 1996, Controlled data-swapping techniques for masking public use microdata sets
-- param: percent number: the largest distance of two ranks, in percent of all values
-- drawn(row_id, value, shift, second): the values that are not NULL, and two draws between 0 and 1 for each.
-- Ranks are moved up at random by less than w = percent * n / 200 - 1; neighbours in the new order change places. A value
-- of rank a lies at its new place or up to w + 1 before it or after it, and so does its neighbour: their ranks are never
-- further apart than 2 * w + 2, which is the distance that is asked for.
WITH ranked AS (
    SELECT
        row_id,
        value,
        shift,
        second,
        ROW_NUMBER() OVER (ORDER BY value, shift, second) AS place,
        COUNT(*) OVER () AS n
    FROM drawn
),
shifted AS (
    SELECT row_id, value, second, place + shift * (:percent * n / 200 - 1) AS place FROM ranked
),
moved AS (
    SELECT
        row_id,
        value,
        ROW_NUMBER() OVER (ORDER BY place, second) AS place,
        LEAD(value) OVER (ORDER BY place, second) AS next_value,
        LAG(value) OVER (ORDER BY place, second) AS last_value
    FROM shifted
)
SELECT row_id, CASE WHEN place % 2 = 1 THEN COALESCE(next_value, value) ELSE last_value END AS value
FROM moved
