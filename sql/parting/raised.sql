-- One step up in the taxonomy for some records of every class that tells too much: of those that tell most of the
-- guarding node that is told of most, as many as it takes.
-- cite: Xiao and Tao 2006, Personalized privacy preservation
-- param: p_breach number: the largest probability that is allowed
-- breaches(label, guard, measured); pieces(label, original, node, n): records by the value that they have, and the node
-- that they show; moves(guard, node, weight, target, after): where a record that shows a node goes to tell less of a
-- guarding node, and how much it tells before and after.
WITH sizes AS (
    SELECT label, SUM(n) AS n FROM pieces GROUP BY label
),
worst AS (
    SELECT
        b.label,
        b.guard,
        (b.measured - :p_breach) * s.n AS excess,
        ROW_NUMBER() OVER (PARTITION BY b.label ORDER BY b.measured DESC, MD5(b.guard)) AS place
    FROM breaches AS b
    JOIN sizes AS s ON s.label = b.label
    WHERE b.measured > :p_breach + 1e-12
),
candidates AS (
    SELECT
        p.label,
        p.original,
        p.node,
        p.n,
        m.target,
        w.excess / (m.weight - m.after) AS wanted,
        ROW_NUMBER() OVER (
            PARTITION BY p.label ORDER BY m.weight - m.after DESC, p.n DESC, MD5(p.original), MD5(p.node)
        ) AS place
    FROM worst AS w
    JOIN pieces AS p ON p.label = w.label
    JOIN moves AS m ON m.guard = w.guard AND m.node = p.node
    WHERE w.place = 1 AND m.target IS NOT NULL
),
moved AS (
    SELECT label, original, node, target, LEAST(n, CAST(CEIL(wanted - 1e-9) AS BIGINT)) AS n
    FROM candidates
    WHERE place = 1
)
SELECT label, original, node, CAST(SUM(n) AS BIGINT) AS n
FROM (
    SELECT label, original, node, n FROM pieces
    UNION ALL
    SELECT label, original, node, -n FROM moved
    UNION ALL
    SELECT label, original, target, n FROM moved
) AS counted
GROUP BY label, original, node
HAVING SUM(n) > 0
