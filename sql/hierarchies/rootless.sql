-- The nodes of the top level, where there is more than one: the hierarchy has no root.
SELECT t.node AS value, COUNT(*) AS records
FROM taxonomy AS t
JOIN (SELECT MAX(level) AS level FROM taxonomy) AS h ON h.level = t.level
WHERE (SELECT COUNT(DISTINCT r.node) FROM taxonomy AS r WHERE r.level = h.level) > 1
GROUP BY t.node
