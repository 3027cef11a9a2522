-- Classes of an earlier release and of the new one whose labels lie on one path from the root, for every
-- quasi-identifier. A release has one level for each of them, so that two labels do where both stand for the same node
-- at the higher of the two levels. The nodes of a class are put into one text, each with its length before it, so that
-- different nodes never make the same text.
WITH higher AS (
    SELECT p.version, p.attribute, GREATEST(MAX(p.own), MAX(n.own)) AS level
    FROM (SELECT version, attribute, MAX(own) AS own FROM past_paths GROUP BY version, attribute) AS p
    JOIN (SELECT attribute, MAX(own) AS own FROM paths GROUP BY attribute) AS n ON n.attribute = p.attribute
    GROUP BY p.version, p.attribute
),
earlier AS (
    SELECT
        l.version,
        l.class_id,
        STRING_AGG(CAST(LENGTH(p.node) AS TEXT) || ':' || p.node, '' ORDER BY l.attribute) AS nodes
    FROM past_labels AS l
    JOIN higher AS h ON h.version = l.version AND h.attribute = l.attribute
    JOIN past_paths AS p
        ON p.version = l.version AND p.attribute = l.attribute AND p.label = l.label AND p.level = h.level
    GROUP BY l.version, l.class_id
),
now AS (
    SELECT
        h.version,
        l.class_id,
        STRING_AGG(CAST(LENGTH(p.node) AS TEXT) || ':' || p.node, '' ORDER BY l.attribute) AS nodes
    FROM class_labels AS l
    JOIN higher AS h ON h.attribute = l.attribute
    JOIN paths AS p ON p.attribute = l.attribute AND p.label = l.label AND p.level = h.level
    GROUP BY h.version, l.class_id
)
SELECT e.version, e.class_id AS past_class_id, n.class_id
FROM earlier AS e
JOIN now AS n ON n.version = e.version AND n.nodes = e.nodes
