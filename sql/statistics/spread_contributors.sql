-- Contributors who are in several cells of the finest level, each with a number and all that they brought: in a total they
-- count once.
SELECT contributor, ROW_NUMBER() OVER () AS number, SUM(amount) AS total
FROM contributions
GROUP BY contributor
HAVING COUNT(*) > 1
