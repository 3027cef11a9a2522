-- Limits of the nodes of one dimension, from those of its values: whoever is in a part is in the total, with no less.
-- param: below integer >= 1: the digits of a cell's number that lie below those of the dimension
-- param: above integer >= 1: those digits and the dimension's own
-- param: dimension integer >= 0: number of the dimension
SELECT limits.cell + up.step AS cell, MAX(limits.contributors) AS contributors, MAX(limits.amount) AS amount
FROM limits AS limits
INNER JOIN up AS up ON up.dimension = :dimension AND up.part = limits.cell % :above - limits.cell % :below
GROUP BY limits.cell + up.step
