-- Where each draw leads: a value becomes `target` if its draw lies in [low, high), looked up by `bucket`.
-- cite: Gouweleeuw, Kooiman, Willenborg and de Wolf 1998, Post randomisation for statistical disclosure control
-- moves(source, target, p): a Markov matrix. grid(number): the buckets 0 to 63, so that a lookup is an equality join.
WITH summed AS (
    SELECT
        source,
        target,
        SUM(p) OVER (PARTITION BY source ORDER BY MD5(target), target ROWS UNBOUNDED PRECEDING) AS high,
        ROW_NUMBER() OVER (PARTITION BY source ORDER BY MD5(target) DESC, target DESC) AS from_last
    FROM moves
    WHERE p > 0
),
ranges AS (
    SELECT
        source,
        target,
        COALESCE(LAG(high) OVER (PARTITION BY source ORDER BY MD5(target), target), 0) AS low,
        CASE WHEN from_last = 1 THEN 2 ELSE high END AS high
    FROM summed
)
SELECT r.source, g.number AS bucket, r.target, r.low, r.high
FROM ranges AS r
JOIN grid AS g ON g.number >= FLOOR(r.low * 64) AND g.number <= FLOOR(r.high * 64)
