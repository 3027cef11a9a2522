-- How the items of a person part if a node of their group's labels is replaced by its children, and what that saves.
SELECT group_id, node, person, STRING_AGG(CAST(child AS TEXT), ',' ORDER BY child) AS signature, SUM(saved) AS saved
FROM (
    SELECT g.group_id, o.node, i.person, c.child, SUM(c.saved) AS saved
    FROM items AS i
    JOIN person_groups AS g ON g.person = i.person
    JOIN item_children AS c ON c.item = i.item
    JOIN open_nodes AS o ON o.group_id = g.group_id AND o.node = c.node
    GROUP BY g.group_id, o.node, i.person, c.child
) AS parts
GROUP BY group_id, node, person
