-- Persons after the chosen splits: a part that is large enough is a group of its own, the others stay together.
SELECT g.person, COALESCE(m.new_id, g.group_id) AS group_id
FROM person_groups AS g
LEFT JOIN (
    SELECT s.person, v.new_id
    FROM person_splits AS s
    JOIN chosen_splits AS v ON v.group_id = s.group_id AND v.node = s.node AND v.signature = s.signature
) AS m ON m.person = g.person
