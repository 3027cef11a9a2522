-- What contributors who are in several cells brought there.
SELECT contributions.*
FROM contributions AS contributions
INNER JOIN spread AS spread ON contributions.contributor = spread.contributor
