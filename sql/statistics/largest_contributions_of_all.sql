-- The largest contributions to each cell, where nobody can waive protection.
-- param: most integer >= 2: how many
SELECT cell, contributor, records, amount, waived, weight
FROM (
    SELECT
        cell, contributor, records, amount, waived, weight,
        ROW_NUMBER() OVER (PARTITION BY cell ORDER BY amount DESC) AS place
    FROM contributions
) AS placed
WHERE place <= :most
