-- Leaves that the hierarchy lists more than once, with the number of their entries.
SELECT node AS value, COUNT(*) AS records FROM taxonomy WHERE level = 0 GROUP BY node HAVING COUNT(*) > 1
