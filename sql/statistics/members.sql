-- The equations of a table: each total with its parts along one dimension.
-- param: below integer >= 1: the digits of a cell's number that lie below those of the dimension
-- param: above integer >= 1: those digits and the dimension's own
-- param: dimension integer >= 0: number of the dimension
SELECT cells.cell AS total, cells.cell - nodes.parent + nodes.part AS part, CAST(:dimension AS INT) AS dimension
FROM cells AS cells
INNER JOIN nodes AS nodes ON nodes.dimension = :dimension AND nodes.parent = cells.cell % :above - cells.cell % :below
