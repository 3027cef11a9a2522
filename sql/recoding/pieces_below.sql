-- The rows of the classes after a step.
SELECT b.class_id, s.cell, s.value, s.n
FROM split AS s
JOIN classes_below AS b ON b.parent = s.parent AND b.child = s.child
