-- The values of the class in which a group was last released, as one text: each value with its length before it, so
-- that different sets never make the same text.
SELECT s.group_id, s.version, v.signature
FROM (
    SELECT p.group_id, p.version, p.class_id
    FROM past AS p
    JOIN (SELECT group_id, MAX(version) AS version FROM past GROUP BY group_id) AS newest
        ON newest.group_id = p.group_id AND newest.version = p.version
) AS s
JOIN (
    SELECT
        version,
        class_id,
        STRING_AGG(CAST(LENGTH(value) AS TEXT) || ':' || value, '' ORDER BY value) AS signature
    FROM past_values
    GROUP BY version, class_id
) AS v ON v.version = s.version AND v.class_id = s.class_id
