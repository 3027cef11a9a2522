-- The groups of those who are in the new release.
SELECT m.person, g.next_id AS group_id
FROM members AS m
JOIN next_groups AS g ON g.group_id = m.group_id AND g.class_id = m.class_id
