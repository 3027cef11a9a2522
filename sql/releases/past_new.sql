-- The classes that they have now.
-- param: version integer: number of the new release
SELECT next_id AS group_id, CAST(:version AS BIGINT) AS version, class_id FROM next_groups
