-- How many positions the grid of time would have, and how many paths there are: asked before the grid is made.
-- param: step number > 0: the time between two ticks
SELECT
    COALESCE(SUM(FLOOR(high / :step) - CEIL(low / :step) + 1), 0) AS positions,
    COUNT(*) AS paths
FROM (SELECT person, MIN(moment) AS low, MAX(moment) AS high FROM points GROUP BY person) AS ends
