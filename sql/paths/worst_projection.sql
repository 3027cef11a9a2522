-- The projection that tells most, and of those the shortest one that fewest persons have.
SELECT i.adversary, i.projection, MAX(b.measured) AS measured
FROM breached AS b
JOIN inferences AS i ON i.class_id = b.class_id
GROUP BY i.adversary, i.projection
ORDER BY MAX(b.measured) DESC, LENGTH(i.projection), MAX(i.records), i.adversary, i.projection
LIMIT 1
