-- Every record shares its quasi-identifiers with at least k - 1 others, so that linking a person to a
-- record succeeds with probability 1/k at most. With a person key, classes hold k persons, not k rows. Where a release links
-- the rows of a person, by a pseudonym or a column as good as one, it is measured on whole sets of rows too.
-- With `suppressed_cells: any_value` it counts the rows that match, where a suppressed cell matches any value. That protects
-- less: whoever knows a suppressed value of a person finds fewer rows, down to that person's own.
-- cite: Samarati and Sweeney 1998; Sweeney 2002
-- param: k integer >= 2: smallest class allowed
-- measures: records in the class; worse when smaller
-- monotone: yes, also under record suppression
SELECT class_id, records AS measured FROM classes WHERE records < :k
