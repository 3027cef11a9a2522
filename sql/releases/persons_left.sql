-- The groups of those who are not in the new release.
SELECT p.person, p.group_id
FROM persons AS p
LEFT JOIN members AS m ON m.person = p.person
WHERE m.person IS NULL
