-- How many contributors are in each cell.
SELECT cell, COUNT(*) AS contributors, SUM(1 - waived) AS protected FROM contributions GROUP BY cell
