-- Contributors who are in several cells of the finest level, with all that they brought: in a total they count once.
SELECT contributor, SUM(amount) AS total FROM contributions GROUP BY contributor HAVING COUNT(*) > 1
