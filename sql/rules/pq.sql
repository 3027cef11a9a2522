-- A cell is unsafe if the second largest contributor, who knows every other within q percent, can estimate the largest
-- within p percent of it. A largest contributor who waived protection is passed over.
-- cite: Hundepool et al. 2012
-- param: p number > 0 <= 100: an estimate must be further off than this percentage
-- param: q number > 0 <= 100: how well everybody can estimate any contributor before the table is published
-- needs: amounts
SELECT cell, (:p * largest - :q * remainder) / :q AS level
FROM cells
WHERE amount > 0 AND :q * remainder < :p * largest
