-- Which record of a class shows which node: those that have one value, in a drawn order, take its nodes one after another.
-- cite: Xiao and Tao 2006, Personalized privacy preservation
-- members(row_id, label, original, draw): the records; pieces(label, original, node, n): how many show which node.
WITH ranked AS (
    SELECT row_id, label, original, ROW_NUMBER() OVER (PARTITION BY label, original ORDER BY draw, row_id) AS place
    FROM members
),
parts AS (
    SELECT label, original, node, n, SUM(n) OVER (PARTITION BY label, original ORDER BY MD5(node), node) AS upto
    FROM pieces
)
SELECT r.row_id, p.node
FROM ranked AS r
JOIN parts AS p ON p.label = r.label AND p.original = r.original AND r.place <= p.upto AND r.place > p.upto - p.n
