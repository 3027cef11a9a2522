-- What contributors who are in several cells brought to cells of every level, where it can matter: where the others are
-- few, or where all that a contributor has is not less than the least of the largest.
-- param: fewest integer >= 2: from how many contributors on no rule cares how many there are
SELECT
    ancestors.cell,
    contributions.contributor,
    SUM(contributions.records) AS records,
    SUM(contributions.amount) AS amount,
    MIN(contributions.waived) AS waived,
    MAX(contributions.weight) AS weight
FROM contributions AS contributions
INNER JOIN ancestors AS ancestors ON contributions.cell = ancestors.leaf
WHERE ancestors.contributors < :fewest OR contributions.total >= ancestors.amount
GROUP BY ancestors.cell, contributions.contributor
