-- The persons of earlier releases who are not in the new one, by group.
SELECT p.group_id, CAST(NULL AS BIGINT) AS class_id, CAST(NULL AS TEXT) AS value, COUNT(*) AS records
FROM persons AS p
LEFT JOIN members AS m ON m.person = p.person
WHERE m.person IS NULL
GROUP BY p.group_id
