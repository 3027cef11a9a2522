-- The attacker has two versions of a table with noise of different size, matches their rows by the columns without
-- noise, and takes the weighted mean with the least noise (weights are inverse covariances). They know how noise is
-- drawn, because policies are public. Independent draws leave less noise than the better version has, draws that are
-- multiples of one another leave none, increments over a ladder leave all of it. About 8 % of the rows are as close as
-- `closeness` asks for by chance.
-- cite: Xiao, Tao and Chen 2009; Li, Chen, Li and Zhang 2012
-- param: closeness number > 0 default 0.1: a row is broken if at most this share of the noise of the better version is left in it
-- measures: confidence, the share of the noise of the better version that disappears; its standard deviation counts
-- no_guess: it measures how much noise is left in numbers, and guesses none of them
-- needs: other, noise
WITH noises AS (
    SELECT
        AVG((ours - truth) * (ours - truth)) AS ours,
        AVG((theirs - truth) * (theirs - truth)) AS theirs,
        AVG((ours - truth) * (theirs - truth)) AS beside
    FROM versions
),
weights AS (
    SELECT
        CASE
            WHEN ours + theirs - 2 * beside > 1e-12 * ours THEN (theirs - beside) / (ours + theirs - 2 * beside)
            ELSE 1
        END AS weight
    FROM noises
),
estimates AS (
    SELECT
        v.ours - v.truth AS ours,
        v.theirs - v.truth AS theirs,
        w.weight * v.ours + (1 - w.weight) * v.theirs - v.truth AS best
    FROM versions AS v
    CROSS JOIN weights AS w
),
errors AS (
    SELECT SQRT(LEAST(AVG(ours * ours), AVG(theirs * theirs))) AS single, SQRT(AVG(best * best)) AS best FROM estimates
)
SELECT
    1 AS persons,
    CASE WHEN r.single > 0 THEN GREATEST(1 - r.best / r.single, 0) ELSE 1 END AS confidence,
    CASE WHEN ABS(e.best) <= :closeness * r.single + 1e-9 THEN 1 ELSE 0 END AS broken
FROM estimates AS e
CROSS JOIN errors AS r
