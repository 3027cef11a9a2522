-- What contributors who are in several cells brought to cells of every level, where it can matter: where the others are
-- few, or where a contributor has not less there than the least of the largest. Whoever has less than that in all is left
-- out before the cells above are looked up. Contributors are there by number, and nobody
-- waived protection or has a weight.
-- param: fewest integer >= 2: from how many contributors on no rule cares how many there are
WITH nearest AS (
    SELECT
        leaf,
        MIN(contributors) AS contributors,
        MIN(CASE WHEN cell = leaf THEN amount END) AS own,
        MIN(CASE WHEN cell <> leaf THEN amount END) AS above
    FROM ancestors
    GROUP BY leaf
),

near AS (
    SELECT contributions.*, spread_contributors.total
    FROM contributions AS contributions
    INNER JOIN nearest AS nearest ON contributions.cell = nearest.leaf
    INNER JOIN spread_contributors AS spread_contributors ON contributions.contributor = spread_contributors.number
    WHERE
        nearest.contributors < :fewest
        OR contributions.amount >= nearest.own
        OR spread_contributors.total >= nearest.above
)

SELECT
    ancestors.cell,
    near.contributor,
    SUM(near.amount) AS amount
FROM near AS near
INNER JOIN ancestors AS ancestors ON near.cell = ancestors.leaf
WHERE
    ancestors.contributors < :fewest
    OR CASE WHEN ancestors.cell = ancestors.leaf THEN near.amount ELSE near.total END >= ancestors.amount
GROUP BY ancestors.cell, near.contributor, ancestors.contributors, ancestors.amount
HAVING ancestors.contributors < :fewest OR SUM(near.amount) >= ancestors.amount
