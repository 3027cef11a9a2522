-- The sensitive values of those who left.
-- param: attribute text: sensitive column
SELECT
    CAST(:attribute AS TEXT) AS attribute, l.group_id, l.value, l.records
FROM left_values AS l
WHERE l.records > 0
