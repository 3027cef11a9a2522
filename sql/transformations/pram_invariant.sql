-- The invariant matrix R = P Q: Q leads back from each result of P to where it came from, as Bayes' rule has it, so that
-- the distribution of the column is kept on average.
-- cite: Gouweleeuw, Kooiman, Willenborg and de Wolf 1998, section 4 (two-stage invariant PRAM)
-- moves(source, target, p): the matrix P. marginals(value, n): the values of the column, with their rows
WITH weighed AS (
    SELECT m.source, m.target, m.p * COALESCE(g.n, 0) AS weight
    FROM moves AS m
    LEFT JOIN marginals AS g ON g.value = m.source
),
sums AS (SELECT target, SUM(weight) AS weight FROM weighed GROUP BY target),
back AS (
    SELECT w.target AS source, w.source AS target, w.weight / NULLIF(s.weight, 0) AS p
    FROM weighed AS w
    JOIN sums AS s ON s.target = w.target
    WHERE w.weight > 0
)
SELECT m.source, b.target, SUM(m.p * b.p) AS p
FROM moves AS m
JOIN back AS b ON b.source = m.target
JOIN marginals AS g ON g.value = m.source
GROUP BY m.source, b.target
