-- How released numbers differ from the originals: the mean of the squares, of the absolute differences, and of these in
-- relation to the original (mean variation), which leaves out cells whose original is 0.
-- cite: Domingo-Ferrer and Torra 2001
-- measures: mean square error, mean absolute error, mean variation of cells; worse when larger
-- needs: rows paired
SELECT
    attribute,
    SUM(records * (original - released) * (original - released)) / SUM(records) AS mse,
    SUM(records * ABS(original - released)) / SUM(records) AS mae,
    SUM(CASE WHEN original <> 0 THEN records * ABS(original - released) / ABS(original) END)
        / SUM(CASE WHEN original <> 0 THEN records END) AS variation
FROM number_pairs
WHERE original IS NOT NULL AND released IS NOT NULL
GROUP BY attribute
