-- Contributors who are in several cells of the finest level: in a total of these they count once.
SELECT contributor FROM contributions GROUP BY contributor HAVING COUNT(*) > 1
