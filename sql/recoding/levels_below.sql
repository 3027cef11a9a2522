-- The levels of the classes after a step: a child is one level below its parent on the attribute of the step; what
-- stayed behind is not specialized on that attribute any more.
-- param: nested integer: 1 where a part of a class that breaks the models breaks them too: then an attribute none of
--   whose children holds is not tried again
SELECT
    b.class_id,
    l.attribute,
    CASE WHEN c.attribute = l.attribute AND b.child <> 0 THEN l.level - 1 ELSE l.level END AS level,
    CASE
        WHEN c.attribute = l.attribute AND b.child = 0 THEN 0
        WHEN t.hopeless = 1 AND :nested = 1 THEN 0
        ELSE l.open
    END AS open
FROM classes_below AS b
JOIN levels AS l ON l.class_id = b.parent
JOIN choice AS c ON c.class_id = b.parent
LEFT JOIN (
    SELECT class_id, attribute, MIN(broken) AS hopeless FROM children GROUP BY class_id, attribute
) AS t ON t.class_id = l.class_id AND t.attribute = l.attribute
