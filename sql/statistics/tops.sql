-- The largest contributions to each cell, each with the weight of those before it.
SELECT
    cell, amount, weight, waived,
    ROW_NUMBER() OVER (PARTITION BY cell ORDER BY amount DESC, waived, weight) AS place,
    SUM(weight) OVER (
        PARTITION BY cell ORDER BY amount DESC, waived, weight ROWS UNBOUNDED PRECEDING
    ) - weight AS before
FROM (
    SELECT cell, amount, weight, waived FROM contributions
    UNION ALL
    SELECT cell, amount, weight, waived FROM other_contributions
) AS largest
