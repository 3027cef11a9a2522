-- The parts of each group for each of its nodes.
SELECT group_id, node, signature, COUNT(*) AS persons, SUM(saved) AS saved
FROM person_splits
GROUP BY group_id, node, signature
