-- Keys of cells from two kinds of contributors together. No contributor is in both.
-- param: keys integer >= 2: keys are below this number
SELECT cell, CAST(SUM(cell_key) % :keys AS BIGINT) AS cell_key
FROM (SELECT * FROM cell_keys UNION ALL SELECT * FROM other_cell_keys) AS both_keys
GROUP BY cell
