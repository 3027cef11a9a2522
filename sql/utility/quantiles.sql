-- The quantiles of a column of numbers in steps of 5 %, on either side: the smallest number that at least such a share
-- of the numbers does not exceed.
-- cite: Hyndman and Fan 1996, definition 1
-- measures: numbers of the source (side 0) and of the release (side 1), which are compared
WITH running AS (
    SELECT
        attribute,
        side,
        number,
        SUM(records) OVER (PARTITION BY attribute, side ORDER BY number) AS below,
        SUM(records) OVER (PARTITION BY attribute, side) AS every
    FROM numbers
),
steps AS (
    SELECT step FROM (
        VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19)
    ) AS listed(step)
)
SELECT r.attribute, r.side, s.step, MIN(r.number) AS number
FROM running AS r
JOIN steps AS s ON r.below * 20 >= s.step * r.every
GROUP BY r.attribute, r.side, s.step
