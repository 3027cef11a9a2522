-- Every cell of a table, also without a record. `largest` is the largest amount of a contributor who did not waive
-- protection, and `remainder` what is left without them and the largest other. Weights count units of the population.
-- param: counted integer >= 0 <= 1: whether the value is a count
WITH first_protected AS (
    SELECT cell, MIN(place) AS place FROM tops AS tops WHERE waived = 0 GROUP BY cell
),

top AS (
    SELECT
        tops.cell,
        SUM(tops.amount * GREATEST(0, LEAST(tops.weight, 2 - tops.before))) AS two,
        MAX(CASE WHEN tops.place = 1 THEN tops.amount END) AS one,
        MAX(CASE WHEN tops.place = first_protected.place THEN tops.amount END) AS largest,
        MAX(first_protected.place) AS place
    FROM tops AS tops
    INNER JOIN first_protected AS first_protected ON tops.cell = first_protected.cell
    GROUP BY tops.cell
)

SELECT
    universe.cell,
    CAST(:counted AS INT) AS counted,
    COALESCE(sums.records, 0) AS records,
    COALESCE(sums.contributors, 0) AS contributors,
    COALESCE(sums.protected, 0) AS protected,
    COALESCE(sums.value, 0) AS value,
    CAST(COALESCE(sums.value, 0) AS DOUBLE PRECISION) AS amount,
    CASE WHEN sums.contributors = 1 THEN sums.lone END AS lone,
    CAST(top.largest AS DOUBLE PRECISION) AS largest,
    CAST(
        sums.value - CASE WHEN top.place = 1 THEN top.two ELSE top.largest + top.one END AS DOUBLE PRECISION
    ) AS remainder
FROM universe AS universe
LEFT JOIN sums AS sums ON universe.cell = sums.cell
LEFT JOIN top AS top ON universe.cell = top.cell
