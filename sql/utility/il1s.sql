-- The distance of released numbers from the originals in standard deviations of the source, divided by the root of two:
-- by how much two draws from a normal distribution differ. A cell that is hidden or left out may be anything: it counts
-- with its distance from the farther end of the column, and with 1 at least. A column that is constant is left out.
-- cite: Yancey, Winkler and Creecy 2002; Mateo-Sanz, Sebe and Domingo-Ferrer 2004
-- measures: mean standardized distance of a number from its original; worse when larger
-- needs: rows paired
SELECT
    attribute,
    SUM(records * COALESCE(distance, hidden)) / SUM(records) AS il1s,
    SUM(records * hidden) / SUM(records) AS hidden,
    CAST(SUM(records) AS BIGINT) AS cells
FROM (
    SELECT
        p.attribute,
        p.records,
        ABS(p.original - p.released) / (SQRT(CAST(2 AS DOUBLE PRECISION)) * s.deviation) AS distance,
        GREATEST(
            GREATEST(p.original - s.low, s.high - p.original) / (SQRT(CAST(2 AS DOUBLE PRECISION)) * s.deviation), 1.0
        ) AS hidden
    FROM number_pairs AS p
    JOIN spreads AS s ON s.attribute = p.attribute
    WHERE p.original IS NOT NULL AND s.deviation > 0
) AS apart
GROUP BY attribute
