-- The rows of classes that no attribute can specialize.
SELECT p.class_id, p.cell, p.n
FROM pieces AS p
WHERE NOT EXISTS (SELECT 1 FROM choice AS c WHERE c.class_id = p.class_id)
