-- Every record shares its quasi-identifiers with at least k - 1 others, so that linking a person to a
-- record succeeds with probability 1/k at most. With a person key, classes hold k persons, not k rows.
-- cite: Samarati and Sweeney 1998; Sweeney 2002
-- param: k integer >= 2: smallest class allowed
-- measures: records in the class; worse when smaller
-- monotone: yes, also under record suppression
SELECT class_id, records AS measured FROM classes WHERE records < :k
