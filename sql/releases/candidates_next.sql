-- The values that are still possible for a person who was released before and is again: those of its new class among
-- those that were possible.
-- param: attribute text: sensitive column
SELECT CAST(:attribute AS TEXT) AS attribute, g.next_id AS group_id, c.value
FROM next_groups AS g
JOIN candidates AS c ON c.group_id = g.group_id
JOIN class_values AS v ON v.class_id = g.class_id AND v.value = c.value
