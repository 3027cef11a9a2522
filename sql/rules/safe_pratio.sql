-- The p% rule under the name and with the default that acro has: p is a share, not a percentage.
-- cite: Preen et al. 2023
-- param: p number > 0 <= 1 default 0.1: acro's safe_pratio_p, what the others must have at least as a share of the largest
-- needs: amounts
SELECT cell, :p * largest - remainder AS level
FROM cells
WHERE amount > 0 AND remainder < :p * largest
