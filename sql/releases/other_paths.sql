-- Quasi-identifiers whose hierarchy is not that of the earlier releases: a node has another parent than it had, there
-- are more levels or fewer, or the column was no quasi-identifier.
WITH before AS (
    SELECT DISTINCT a.attribute, a.level, a.node, b.node AS above
    FROM past_paths AS a
    JOIN past_paths AS b
        ON b.version = a.version AND b.attribute = a.attribute AND b.label = a.label AND b.level = a.level + 1
),
now AS (
    SELECT DISTINCT a.attribute, a.level, a.node, b.node AS above
    FROM paths AS a
    JOIN paths AS b ON b.attribute = a.attribute AND b.label = a.label AND b.level = a.level + 1
),
heights AS (
    SELECT version, attribute, MAX(level) AS height FROM past_paths GROUP BY version, attribute
),
heights_now AS (
    SELECT attribute, MAX(level) AS height FROM paths GROUP BY attribute
)
SELECT DISTINCT attribute
FROM (
    SELECT b.attribute
    FROM before AS b
    JOIN now AS n ON n.attribute = b.attribute AND n.level = b.level AND n.node = b.node
    WHERE n.above <> b.above
    UNION ALL
    SELECT h.attribute
    FROM heights AS h
    LEFT JOIN heights_now AS n ON n.attribute = h.attribute AND n.height = h.height
    WHERE n.attribute IS NULL
    UNION ALL
    SELECT n.attribute
    FROM heights_now AS n
    CROSS JOIN (SELECT DISTINCT version FROM heights) AS v
    LEFT JOIN heights AS h ON h.attribute = n.attribute AND h.version = v.version
    WHERE h.attribute IS NULL
) AS different
