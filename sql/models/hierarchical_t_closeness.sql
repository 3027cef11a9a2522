-- As t_closeness, for a sensitive attribute with a taxonomy: the cost of moving a share from one value to another is
-- the height of their lowest common ancestor over the height of the tree. On a tree the earth mover's distance is
-- the mean over its levels of half the sum of |p - q| over the nodes of that level.
-- NULL is a value here: a missing value tells something, and its share is compared like any other. The value behind
-- a NULL is not protected; see the diversity models for unknown values.
-- cite: Li, Li and Venkatasubramanian 2007
-- param: t number >= 0 <= 1: largest distance
-- measures: distance of the class to the table; worse when larger
-- needs: sensitive, hierarchy
-- shapes: rows, entity
-- monotone: yes; not under record suppression
-- excess: measured - :t, at most 1 - :t
WITH sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM class_values GROUP BY class_id
),
-- The least of its values stands for a node: a number is grouped faster than a name.
nodes AS (
    SELECT
        n.value,
        n.level,
        MAX(n.level) OVER () AS height,
        MIN(n.value) OVER (PARTITION BY n.level, n.node) AS node,
        SUM(t.records) OVER (PARTITION BY n.level, n.node) / CAST(w.records AS DOUBLE PRECISION) AS share
    FROM taxonomy AS n
    JOIN totals AS t ON t.value = n.value
    CROSS JOIN (SELECT SUM(records) AS records FROM totals) AS w
),
class_nodes AS (
    SELECT v.class_id, n.level, n.node, n.share, n.height, SUM(v.records) AS records
    FROM class_values AS v
    JOIN nodes AS n ON n.value = v.value
    WHERE n.level < n.height
    GROUP BY v.class_id, n.level, n.node, n.share, n.height
)
SELECT class_id, measured
FROM (
    SELECT c.class_id, SUM(GREATEST(c.records / s.records - c.share, 0)) / MAX(c.height) AS measured
    FROM class_nodes AS c
    JOIN sizes AS s ON s.class_id = c.class_id
    GROUP BY c.class_id
) AS distance
WHERE measured > :t + 1e-9
