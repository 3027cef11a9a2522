-- Nodes that have more than one parent, with the number of the parents: the level above is not a function of theirs.
SELECT
    b.node AS value,
    COUNT(DISTINCT a.node) AS records
FROM taxonomy AS b
JOIN taxonomy AS a ON a.leaf = b.leaf AND a.level = b.level + 1
GROUP BY b.level, b.node
HAVING COUNT(DISTINCT a.node) > 1
