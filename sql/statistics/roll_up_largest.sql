-- The largest contributions to the nodes of one dimension, from those to its values.
-- param: below integer >= 1: the digits of a cell's number that lie below those of the dimension
-- param: above integer >= 1: those digits and the dimension's own
-- param: dimension integer >= 0: number of the dimension
SELECT contributions.cell + up.step AS cell, contributions.amount, contributions.waived, contributions.weight
FROM contributions AS contributions
INNER JOIN up AS up ON up.dimension = :dimension AND up.part = contributions.cell % :above - contributions.cell % :below
