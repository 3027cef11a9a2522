-- Keys of the nodes of one dimension, from those of its values. Good for contributors who are in one cell only.
-- param: below integer >= 1: the digits of a cell's number that lie below those of the dimension
-- param: above integer >= 1: those digits and the dimension's own
-- param: dimension integer >= 0: number of the dimension
-- param: keys integer >= 2: keys are below this number
SELECT cell_keys.cell + up.step AS cell, CAST(SUM(cell_keys.cell_key) % :keys AS BIGINT) AS cell_key
FROM cell_keys AS cell_keys
INNER JOIN up AS up ON up.dimension = :dimension AND up.part = cell_keys.cell % :above - cell_keys.cell % :below
GROUP BY cell_keys.cell + up.step
