-- The contributor with the largest part of each cell: `ancestors` are the cells with the finest ones below them.
SELECT DISTINCT contributor AS lone
FROM (
    SELECT contributor, ROW_NUMBER() OVER (PARTITION BY cell ORDER BY amount DESC, contributor) AS place
    FROM (
        SELECT ancestors.cell, contributions.contributor, SUM(contributions.amount * contributions.weight) AS amount
        FROM contributions AS contributions
        INNER JOIN ancestors AS ancestors ON contributions.cell = ancestors.leaf
        GROUP BY ancestors.cell, contributions.contributor
    ) AS brought
) AS ranked
WHERE place = 1
