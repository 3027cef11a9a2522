-- Values of the finest cells from contributors who are in several: they are counted elsewhere.
SELECT
    cell,
    SUM(records) AS records,
    0 AS contributors,
    0 AS protected,
    SUM(amount * weight) AS value,
    MIN(CASE WHEN 1 = 0 THEN contributor END) AS lone
FROM contributions
GROUP BY cell
