-- The matrix that keeps each value with one probability, and spreads the rest evenly over the other values.
-- cite: Gouweleeuw, Kooiman, Willenborg and de Wolf 1998
-- param: keep number >= 0 <= 1: the probability on the diagonal
-- marginals(value, n): the values of the column, with their rows
WITH sized AS (SELECT COUNT(*) AS domain_size FROM marginals)
SELECT
    a.value AS source,
    b.value AS target,
    CASE WHEN a.value = b.value THEN :keep ELSE (1 - :keep) / NULLIF(s.domain_size - 1, 0) END AS p
FROM marginals AS a
CROSS JOIN marginals AS b
CROSS JOIN sized AS s
