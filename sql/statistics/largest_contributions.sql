-- The largest contributions to each cell, and the largest of those who did not waive protection.
-- param: most integer >= 2: how many
SELECT cell, amount, waived, weight
FROM (
    SELECT
        cell, amount, waived, weight,
        ROW_NUMBER() OVER (PARTITION BY cell ORDER BY amount DESC NULLS LAST) AS place,
        ROW_NUMBER() OVER (PARTITION BY cell ORDER BY waived NULLS LAST, amount DESC NULLS LAST) AS place_protected
    FROM contributions
) AS placed
WHERE place <= :most OR (waived = 0 AND place_protected = 1)
