-- Contributors who have records of several weights.
SELECT contributor FROM contributions GROUP BY contributor HAVING MIN(weight) < MAX(weight)
