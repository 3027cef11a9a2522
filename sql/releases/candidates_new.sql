-- The values that are possible for a person who is released for the first time.
-- param: attribute text: sensitive column
SELECT CAST(:attribute AS TEXT) AS attribute, g.next_id AS group_id, v.value
FROM next_groups AS g
JOIN class_values AS v ON v.class_id = g.class_id
WHERE g.group_id = 0
