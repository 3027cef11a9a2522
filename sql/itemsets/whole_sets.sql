-- How many persons have exactly the same items; `person` is one of them.
SELECT row_set AS class_id, COUNT(*) AS records, MIN(person) AS person FROM row_sets GROUP BY row_set
