-- What all others brought: they are in one cell of the finest level, and so in one of every total.
SELECT contributions.*
FROM contributions AS contributions
LEFT JOIN spread AS spread ON contributions.contributor = spread.contributor
WHERE spread.contributor IS NULL
