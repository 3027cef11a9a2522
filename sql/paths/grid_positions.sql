-- The place of each path at every tick from its first point to its last one: between two points it moves on a straight
-- line at an even speed. A tick is a multiple of the step of the common grid of time.
-- cite: Abul, Bonchi and Nanni 2008, Never walk alone
-- param: step number > 0: the time between two ticks
WITH segments AS (
    SELECT
        person,
        moment,
        x,
        y,
        LEAD(moment) OVER (PARTITION BY person ORDER BY moment) AS next_moment,
        LEAD(x) OVER (PARTITION BY person ORDER BY moment) AS next_x,
        LEAD(y) OVER (PARTITION BY person ORDER BY moment) AS next_y
    FROM points
),
ranges AS (
    SELECT
        person,
        moment,
        x,
        y,
        next_moment,
        next_x,
        next_y,
        CAST(CEIL(moment / :step) AS BIGINT) AS low,
        CASE
            WHEN next_moment IS NULL THEN CAST(FLOOR(moment / :step) AS BIGINT)
            ELSE CAST(CEIL(next_moment / :step) AS BIGINT) - 1
        END AS high
    FROM segments
)
SELECT
    r.person,
    g.tick,
    CASE WHEN r.next_moment IS NULL THEN r.x ELSE r.x + (r.next_x - r.x) * ((g.tick * :step - r.moment) / (r.next_moment - r.moment)) END AS x,
    CASE WHEN r.next_moment IS NULL THEN r.y ELSE r.y + (r.next_y - r.y) * ((g.tick * :step - r.moment) / (r.next_moment - r.moment)) END AS y
FROM ranges AS r
CROSS JOIN LATERAL GENERATE_SERIES(r.low, r.high) AS g(tick)
