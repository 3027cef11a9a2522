-- Classes after one step down: rows go to their child where it holds, and stay behind (child 0) where it does not.
-- trial(child_id, class_id, cell, value, n): the rows of each class under the attribute that was chosen for it.
SELECT t.class_id AS parent, CASE WHEN c.broken = 0 THEN t.child_id ELSE 0 END AS child, t.cell, t.value, t.n
FROM trial AS t
JOIN children AS c ON c.child_id = t.child_id
