-- The sensitive values of those who left: those of their group, without the values of those who stayed. Who changed
-- its value may take away one too many, never too few.
-- param: attribute text: sensitive column
SELECT
    CAST(:attribute AS TEXT) AS attribute, l.group_id, l.value, l.records
FROM left_values AS l
WHERE l.records > 0
