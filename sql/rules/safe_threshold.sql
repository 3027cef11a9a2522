-- The frequency rule under the name and with the default that acro has: fewer contributors than n are unsafe.
-- cite: Preen et al. 2023
-- param: n integer >= 2 default 10: acro's safe_threshold, fewest contributors of a safe cell
SELECT cell, CASE WHEN counted = 1 OR amount = 0 THEN 1 ELSE amount / 10 END AS level
FROM cells
WHERE contributors > 0 AND contributors < :n AND protected > 0
