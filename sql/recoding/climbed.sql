-- The rows after one round: those that break a model go one step up, and are dropped above the last step.
-- placed(cell, step, n, class_id), unsafe(cell).
-- param: last integer: the highest step that distorts no more than is accepted
SELECT p.cell, CASE WHEN u.cell IS NULL THEN p.step ELSE p.step + 1 END AS step, p.n
FROM placed AS p
LEFT JOIN unsafe AS u ON u.cell = p.cell
WHERE u.cell IS NULL OR p.step < :last
