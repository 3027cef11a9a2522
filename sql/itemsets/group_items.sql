-- How many persons of a group have a private item.
SELECT g.group_id, v.value AS item, COUNT(*) AS records
FROM person_groups AS g
INNER JOIN owners AS v ON v.person = g.person
GROUP BY g.group_id, v.value
