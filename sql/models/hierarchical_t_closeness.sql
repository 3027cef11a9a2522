-- As t_closeness, for a sensitive attribute with a taxonomy: the cost of moving a share from one value to another is
-- the height of their lowest common ancestor over the height of the tree. On a tree the earth mover's distance is
-- the mean over its levels of half the sum of |p - q| over the nodes of that level.
-- cite: Li, Li and Venkatasubramanian 2007
-- param: t number >= 0 <= 1: largest distance
-- measures: distance of the class to the table; worse when larger
-- needs: sensitive, hierarchy
-- monotone: yes; not under record suppression
WITH sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM class_values GROUP BY class_id
),
whole AS (
    SELECT t.value, CAST(t.records AS DOUBLE PRECISION) / w.records AS share
    FROM totals AS t
    CROSS JOIN (SELECT SUM(records) AS records FROM totals) AS w
),
height AS (SELECT MAX(level) AS levels FROM taxonomy),
node_shares AS (
    SELECT n.level, n.node, SUM(w.share) AS share
    FROM taxonomy AS n
    JOIN whole AS w ON w.value = n.value
    GROUP BY n.level, n.node
),
class_nodes AS (
    SELECT v.class_id, n.level, n.node, SUM(v.records) AS records
    FROM class_values AS v
    JOIN taxonomy AS n ON n.value = v.value
    JOIN height AS h ON n.level < h.levels
    GROUP BY v.class_id, n.level, n.node
)
SELECT class_id, measured
FROM (
    SELECT c.class_id, SUM(GREATEST(c.records / s.records - n.share, 0)) / MAX(h.levels) AS measured
    FROM class_nodes AS c
    JOIN sizes AS s ON s.class_id = c.class_id
    JOIN node_shares AS n ON n.level = c.level AND n.node = c.node
    CROSS JOIN height AS h
    GROUP BY c.class_id
) AS distance
WHERE measured > :t + 1e-9
