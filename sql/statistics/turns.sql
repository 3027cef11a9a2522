-- Nodes that can take the place of another in a cube: its siblings, its parent and its children. What a sibling gains the
-- other loses (side -1); a parent moves with its child (side 1). A family is a parent with its children.
SELECT dimension, part, family, step, side
FROM (
    SELECT a.dimension, a.part, a.parent AS family, b.part - a.part AS step, -1 AS side
    FROM nodes AS a
    INNER JOIN nodes AS b ON a.dimension = b.dimension AND a.parent = b.parent AND a.part <> b.part
    WHERE a.parent >= 0
    UNION ALL
    SELECT dimension, part, parent AS family, parent - part AS step, 1 AS side FROM nodes WHERE parent >= 0
    UNION ALL
    SELECT dimension, parent AS part, parent AS family, part - parent AS step, 1 AS side FROM nodes WHERE parent >= 0
) AS turns_
