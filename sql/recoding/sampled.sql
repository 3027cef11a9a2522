-- A systematic sample in random order: each row is drawn with probability `rate`, and the sample has the size that it
-- should have, whatever the sizes of the cells.
-- param: rate number: share of the rows that is drawn
-- param: start number: where in the first interval the drawing begins, from 0 to 1
-- param: seed text: makes the order
SELECT cell, CAST(0 AS BIGINT) AS step, CAST(LEAST(n, drawn) AS BIGINT) AS n
FROM (
    SELECT cell, n, FLOOR(through * :rate + :start) - FLOOR((through - n) * :rate + :start) AS drawn
    FROM (
        SELECT
            cell,
            n,
            CAST(SUM(n) OVER (
                ORDER BY MD5(CAST(cell AS TEXT) || '/' || :seed), cell
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS DOUBLE PRECISION) AS through
        FROM cells
    ) AS ordered
) AS counted
WHERE drawn > 0
