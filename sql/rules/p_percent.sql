-- A cell is unsafe if the second largest contributor can estimate the largest within p percent of it: what is left of the
-- value without these two is less than that. A largest contributor who waived protection is passed over.
-- cite: Hundepool et al. 2012
-- param: p number > 0 <= 100: an estimate must be further off than this percentage
-- needs: amounts
SELECT cell, (:p * largest - 100 * remainder) / 100 AS level
FROM cells
WHERE amount > 0 AND 100 * remainder < :p * largest
