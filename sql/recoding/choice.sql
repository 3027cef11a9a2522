-- The attribute on which each class is specialized: the one that saves most, in those of its children that hold.
-- children(child_id, class_id, attribute, rows_, saved, broken): what a class would be split into by an attribute;
-- saved are the leaves that its labels stop to cover, summed over the rows. factors(attribute, factor): what a leaf is
-- worth.
SELECT class_id, attribute
FROM (
    SELECT
        c.class_id,
        c.attribute,
        ROW_NUMBER() OVER (
            PARTITION BY c.class_id ORDER BY SUM(c.saved) * MAX(f.factor) DESC, c.attribute
        ) AS place
    FROM children AS c
    JOIN factors AS f ON f.attribute = c.attribute
    WHERE c.broken = 0
    GROUP BY c.class_id, c.attribute
) AS ranked
WHERE place = 1
