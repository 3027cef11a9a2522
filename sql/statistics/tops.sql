-- The largest contributions to each cell, each with the weight of those before it.
SELECT
    cell, amount, weight, waived,
    ROW_NUMBER() OVER (PARTITION BY cell ORDER BY amount DESC, contributor) AS place,
    SUM(weight) OVER (PARTITION BY cell ORDER BY amount DESC, contributor ROWS UNBOUNDED PRECEDING) - weight AS before
FROM (SELECT * FROM contributions UNION ALL SELECT * FROM other_contributions) AS largest
