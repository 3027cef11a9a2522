-- What contributors who are alone in a cell brought to all cells.
SELECT contributions.cell, lone_contributors.number, contributions.amount * contributions.weight AS amount
FROM contributions AS contributions
INNER JOIN lone_contributors AS lone_contributors ON contributions.contributor = lone_contributors.contributor
