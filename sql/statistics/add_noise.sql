-- Counts with the noise that their keys look up. An empty cell has no key and stays 0; a cell whose noise is not in the
-- table has no value.
-- param: largest integer >= 1: this count stands for all larger ones in the table of noise
SELECT
    cells.cell,
    CASE WHEN cells.value = 0 THEN 0 ELSE CAST(cells.value + noise.change AS BIGINT) END AS value
FROM cells AS cells
LEFT JOIN cell_keys AS cell_keys ON cells.cell = cell_keys.cell
LEFT JOIN noise AS noise
    ON noise.size = LEAST(cells.value, :largest)
    AND noise.low_key <= cell_keys.cell_key AND cell_keys.cell_key < noise.high_key
