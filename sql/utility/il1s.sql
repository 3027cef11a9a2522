-- The distance of released numbers from the originals in standard deviations of the source, divided by the root of two:
-- by how much two draws from a normal distribution differ. Cells that are hidden or left out have no distance, and are
-- not in the mean; a column that is constant has none either.
-- cite: Yancey, Winkler and Creecy 2002; Mateo-Sanz, Sebe and Domingo-Ferrer 2004
-- measures: mean standardized distance of a number from its original; worse when larger
-- needs: rows paired
SELECT
    p.attribute,
    SUM(p.records * ABS(p.original - p.released) / (SQRT(CAST(2 AS DOUBLE PRECISION)) * s.deviation))
        / SUM(p.records) AS il1s,
    CAST(SUM(p.records) AS BIGINT) AS cells
FROM number_pairs AS p
JOIN spreads AS s ON s.attribute = p.attribute
WHERE p.original IS NOT NULL AND p.released IS NOT NULL AND s.deviation > 0
GROUP BY p.attribute
