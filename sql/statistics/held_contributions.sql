-- What contributors who are alone in some cell brought to the finest cells.
SELECT contributions.*
FROM contributions AS contributions
INNER JOIN lone_contributors AS lone_contributors ON contributions.contributor = lone_contributors.contributor
