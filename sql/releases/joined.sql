-- The classes of a join: how many of our rows, how many of theirs, and how many pairs of them are in each.
WITH ours AS (
    SELECT class_id, SUM(ours) AS records FROM (SELECT DISTINCT class_id, our_id, ours FROM pairs) AS o GROUP BY class_id
),
theirs AS (
    SELECT class_id, SUM(theirs) AS records
    FROM (SELECT DISTINCT class_id, their_id, theirs FROM pairs) AS t
    GROUP BY class_id
),
every AS (
    SELECT class_id, version, SUM(ours * theirs) AS records FROM pairs GROUP BY class_id, version
)
SELECT
    e.class_id,
    e.version,
    CAST(e.records AS BIGINT) AS records,
    CAST(o.records AS BIGINT) AS ours,
    CAST(t.records AS BIGINT) AS theirs
FROM every AS e
JOIN ours AS o ON o.class_id = e.class_id
JOIN theirs AS t ON t.class_id = e.class_id
