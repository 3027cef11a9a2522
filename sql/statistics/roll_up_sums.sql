-- Sums by the nodes of one dimension, from those by its values. Good for contributors who are in one cell only.
-- param: below integer >= 1: the digits of a cell's number that lie below those of the dimension
-- param: above integer >= 1: those digits and the dimension's own
-- param: dimension integer >= 0: number of the dimension
SELECT
    sums.cell + up.step AS cell,
    SUM(sums.records) AS records,
    SUM(sums.contributors) AS contributors,
    SUM(sums.protected) AS protected,
    SUM(sums.value) AS value,
    MIN(sums.lone) AS lone
FROM sums AS sums
INNER JOIN up AS up ON up.dimension = :dimension AND up.part = sums.cell % :above - sums.cell % :below
GROUP BY sums.cell + up.step
