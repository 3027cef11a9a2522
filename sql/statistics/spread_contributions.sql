-- What contributors who are in several cells brought there.
SELECT contributions.*, spread.total
FROM contributions AS contributions
INNER JOIN spread AS spread ON contributions.contributor = spread.contributor
