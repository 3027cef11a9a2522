-- A cell is unsafe if its n largest contributors have more than k percent of its value, unless all have waived protection.
-- cite: Hundepool et al. 2012
-- param: n integer >= 1 <= 20: how many contributors are taken together
-- param: k number > 0 < 100: percentage of the value that they may have
-- needs: amounts
WITH top AS (
    SELECT cell, SUM(amount * GREATEST(0, LEAST(weight, :n - before))) AS amount
    FROM tops
    WHERE before < :n
    GROUP BY cell
)

SELECT cells.cell, (100 * top.amount - :k * cells.amount) / :k AS level
FROM cells AS cells
INNER JOIN top AS top ON cells.cell = top.cell
WHERE cells.amount > 0 AND cells.protected > 0 AND 100 * top.amount > :k * cells.amount
