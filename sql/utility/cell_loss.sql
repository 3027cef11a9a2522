-- How far the cells of a release are from those of its source, from 0 (unchanged) to 1 (nothing is left), as the mean
-- over all rows of the source. A number loses its distance in standard deviations, divided by the square root of two
-- and at most 1. A category label that stands for several values loses as in ncp: (values - 1) / (domain - 1), where
-- the values are those of the source that it replaces; a different value in its place loses everything. So do rows and
-- cells that are left out or hidden. Cells that are NULL in the source do not count.
-- cite: Domingo-Ferrer and Torra 2001 (bounded IL1s); Xu, Wang, Pei, Wang, Shi and Fu 2006 (NCP of a label)
-- measures: share of the information in a column's cells that is lost; worse when larger
-- needs: rows paired
WITH domains AS (
    SELECT attribute, COUNT(DISTINCT original) AS size FROM label_pairs GROUP BY attribute
),
labels AS (
    SELECT attribute, released, COUNT(DISTINCT original) AS leaves FROM label_pairs GROUP BY attribute, released
),
originals AS (
    SELECT DISTINCT attribute, original FROM label_pairs
),
cells AS (
    SELECT
        p.attribute,
        p.records,
        CASE
            WHEN p.released IS NULL THEN 1.0
            WHEN p.released = p.original THEN 0.0
            WHEN p.released = '*' OR o.original IS NOT NULL OR d.size <= 1 THEN 1.0
            ELSE CAST(l.leaves - 1 AS DOUBLE PRECISION) / (d.size - 1)
        END AS loss
    FROM label_pairs AS p
    JOIN domains AS d ON d.attribute = p.attribute
    LEFT JOIN labels AS l ON l.attribute = p.attribute AND l.released = p.released
    LEFT JOIN originals AS o ON o.attribute = p.attribute AND o.original = p.released
    WHERE p.original IS NOT NULL
    UNION ALL
    SELECT
        p.attribute,
        p.records,
        CASE
            WHEN p.released IS NULL THEN 1.0
            WHEN p.released = p.original THEN 0.0
            WHEN s.deviation = 0 THEN 1.0
            ELSE LEAST(ABS(p.original - p.released) / (SQRT(CAST(2 AS DOUBLE PRECISION)) * s.deviation), 1.0)
        END AS loss
    FROM number_pairs AS p
    JOIN spreads AS s ON s.attribute = p.attribute
    WHERE p.original IS NOT NULL
)
SELECT attribute, SUM(records * CAST(loss AS DOUBLE PRECISION)) / SUM(records) AS loss FROM cells GROUP BY attribute
