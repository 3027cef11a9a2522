-- What contributors who are in several cells brought to cells of every level, where it can matter: where the others are
-- few, or where all that a contributor has is not less than the least of the largest. Of a finest cell that is what they
-- brought there. Whoever is too small for every cell above is left out before the cells above are looked up.
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
    SELECT contributions.*
    FROM contributions AS contributions
    INNER JOIN nearest AS nearest ON contributions.cell = nearest.leaf
    WHERE
        nearest.contributors < :fewest OR contributions.amount >= nearest.own OR contributions.total >= nearest.above
)

SELECT
    ancestors.cell,
    near.contributor,
    SUM(near.records) AS records,
    SUM(near.amount) AS amount,
    MIN(near.waived) AS waived,
    MAX(near.weight) AS weight
FROM near AS near
INNER JOIN ancestors AS ancestors ON near.cell = ancestors.leaf
WHERE
    ancestors.contributors < :fewest
    OR CASE WHEN ancestors.cell = ancestors.leaf THEN near.amount ELSE near.total END >= ancestors.amount
GROUP BY ancestors.cell, near.contributor
