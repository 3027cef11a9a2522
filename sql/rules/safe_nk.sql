-- The (n, k)-dominance rule under the name and with the defaults that acro has: k is a share, not a percentage.
-- cite: Preen et al. 2023
-- param: n integer >= 1 <= 20 default 2: acro's safe_nk_n, how many contributors are taken together
-- param: k number > 0 < 1 default 0.9: acro's safe_nk_k, share of the value that they may have
-- needs: amounts
WITH top AS (
    SELECT cell, SUM(amount * GREATEST(0, LEAST(weight, :n - before))) AS amount
    FROM tops
    WHERE before < :n
    GROUP BY cell
)

SELECT cells.cell, top.amount / :k - cells.amount AS level
FROM cells AS cells
INNER JOIN top AS top ON cells.cell = top.cell
WHERE cells.amount > 0 AND cells.protected > 0 AND top.amount > :k * cells.amount
