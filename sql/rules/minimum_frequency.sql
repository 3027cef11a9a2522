-- A cell is unsafe if it has contributors, but fewer than n, and one of them did not waive protection.
-- cite: Hundepool et al. 2012
-- param: n integer >= 2: fewest contributors of a safe cell
-- param: level number >= 0 default 0: how far an attacker's bounds must lie from the value; 0 stands for 1 in counts and
--   a tenth of the value in sums
SELECT cell, CASE WHEN :level > 0 THEN :level WHEN counted = 1 OR amount = 0 THEN 1 ELSE amount / 10 END AS level
FROM cells
WHERE contributors > 0 AND contributors < :n AND protected > 0
