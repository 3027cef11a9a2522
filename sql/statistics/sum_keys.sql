-- The key of a cell: the sum of the record keys of those who are in it, each once.
-- param: keys integer >= 2: keys are below this number
SELECT contributions.cell, CAST(SUM(record_keys.record_key) % :keys AS BIGINT) AS cell_key
FROM contributions AS contributions
INNER JOIN record_keys AS record_keys ON contributions.contributor = record_keys.contributor
GROUP BY contributions.cell
