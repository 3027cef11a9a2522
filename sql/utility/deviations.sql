-- How released numbers differ from the originals: the mean of the squares, of the absolute differences, and of these in
-- relation to the original (mean variation), which leaves out cells whose original is 0. A number that is hidden or left
-- out counts with its distance from the farther end of the column.
-- cite: Domingo-Ferrer and Torra 2001
-- measures: mean square error, mean absolute error, mean variation of cells; worse when larger
-- needs: rows paired
SELECT
    attribute,
    SUM(records * distance * distance) / SUM(records) AS mse,
    SUM(records * distance) / SUM(records) AS mae,
    SUM(CASE WHEN original <> 0 THEN records * distance / ABS(original) END)
        / SUM(CASE WHEN original <> 0 THEN records END) AS variation,
    SUM(records) AS cells,
    SUM(CASE WHEN original <> 0 THEN records ELSE 0 END) AS nonzero_cells
FROM (
    SELECT
        p.attribute,
        p.records,
        p.original,
        COALESCE(ABS(p.original - p.released), GREATEST(p.original - s.low, s.high - p.original)) AS distance
    FROM number_pairs AS p
    JOIN spreads AS s ON s.attribute = p.attribute
    WHERE p.original IS NOT NULL
) AS apart
GROUP BY attribute
