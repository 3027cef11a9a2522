-- The mean of the values that have the same rank in several samples, drawn with replacement.
-- cite: Heer 1993, A bootstrap procedure to preserve statistical confidentiality in contingency tables;
--   Domingo-Ferrer and Torra 2001, A quantitative comparison of disclosure control methods for microdata
-- ranked(place, value): the values in their order, from 1. drawn(sample, key, draw): one draw for each value and sample
-- A draw points to a value by its rank, so that draws in their order are the sample in its order.
WITH sized AS (SELECT COUNT(*) AS n FROM ranked),
picked AS (
    SELECT
        ROW_NUMBER() OVER (PARTITION BY d.sample ORDER BY d.draw, d.key) AS place,
        CAST(FLOOR(d.draw * s.n) AS BIGINT) + 1 AS pick
    FROM drawn AS d
    CROSS JOIN sized AS s
)
SELECT p.place, AVG(CAST(r.value AS DOUBLE PRECISION)) AS mean
FROM picked AS p
JOIN ranked AS r ON r.place = p.pick
GROUP BY p.place
