-- The largest contributions to each cell, where nobody can waive protection. There are no NULLs; that they would come
-- last lets DuckDB keep the largest of each cell instead of sorting all.
-- param: most integer >= 2: how many
SELECT cell, amount, waived, weight
FROM (
    SELECT cell, amount, waived, weight, ROW_NUMBER() OVER (PARTITION BY cell ORDER BY amount DESC NULLS LAST) AS place
    FROM contributions
) AS placed
WHERE place <= :most
