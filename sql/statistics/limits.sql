-- What contributors who are in one cell leave open in each cell: how many they are, and how much somebody else must have
-- to be among the largest.
-- param: most integer >= 2: how many are the largest
SELECT sums.cell, sums.contributors, CASE WHEN largest.amount IS NULL THEN -1 ELSE largest.amount END AS amount
FROM sums AS sums
LEFT JOIN (
    SELECT cell, MIN(amount) AS amount FROM contributions GROUP BY cell HAVING COUNT(*) >= :most AND MIN(waived) = 0
) AS largest ON sums.cell = largest.cell
