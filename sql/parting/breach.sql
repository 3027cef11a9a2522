-- The probability with which classes tell that a record lies below the guarding node that one of its records names.
-- cite: Xiao and Tao 2006, Personalized privacy preservation
-- guards(label, guard): the guarding nodes that the records of a class name.
-- pieces(label, original, node, n): how many records of a class show which node of the taxonomy.
-- moves(guard, node, weight): the share of the leaves of a node that lies below a guarding node, where it is not 0.
SELECT g.label, g.guard, SUM(p.n * COALESCE(m.weight, 0)) / SUM(p.n) AS measured
FROM guards AS g
JOIN pieces AS p ON p.label = g.label
LEFT JOIN moves AS m ON m.guard = g.guard AND m.node = p.node
GROUP BY g.label, g.guard
