-- Where each draw leads, as an alias table: a draw below `stay`, the probability that every value has to stay, leaves it.
-- Of the others, u = (draw - stay) / (1 - stay) points to the cell FLOOR(u * n), n being the number of values that others may
-- become, and there to `target` if the rest of u * n is below `cut`, else to `other`.
-- cite: Walker 1977, An efficient method for generating discrete random variables with general distributions;
--   Hübschle-Schneider and Sanders 2019, Parallel weighted random sampling (all cells at once, by running sums)
-- moves(source, target, p): a Markov matrix
-- Probabilities are multiples of 2^-32, so that sums are exact, and equal on every engine. Each value has a cell of its own
-- in every row; what is missing in those with a low probability is filled up from those with a high one, in their order.
WITH staying AS (
    -- Rounded down by more than what the order of a sum changes, and below 1.
    SELECT LEAST(GREATEST(FLOOR(MIN(p) * 1048576 - 0.3), 0) / 1048576, 0.9375) AS stay
    FROM (SELECT source, SUM(CASE WHEN target = source THEN p ELSE 0 END) AS p FROM moves GROUP BY source) AS kept
),
left_over AS (
    SELECT
        m.source,
        m.target,
        (m.p - CASE WHEN m.target = m.source THEN s.stay ELSE 0 END) / (1 - s.stay) AS p
    FROM moves AS m
    CROSS JOIN staying AS s
),
targets AS (
    SELECT target, ROW_NUMBER() OVER (ORDER BY MD5(target), target) - 1 AS cell
    FROM left_over
    WHERE p > 0
    GROUP BY target
),
sized AS (SELECT COUNT(*) AS cells FROM targets),
summed AS (
    SELECT
        source,
        target,
        SUM(p) OVER (PARTITION BY source ORDER BY MD5(target), target ROWS UNBOUNDED PRECEDING) AS high,
        ROW_NUMBER() OVER (PARTITION BY source ORDER BY MD5(target) DESC, target DESC) AS from_last
    FROM left_over
    WHERE p > 0
),
stepped AS (
    SELECT
        source,
        target,
        CASE
            WHEN from_last = 1 OR high > 1 THEN 4294967296
            ELSE CAST(FLOOR(high * 4294967296 + 0.5) AS BIGINT)
        END AS high
    FROM summed
),
weighed AS (
    SELECT
        source,
        target,
        high - COALESCE(LAG(high) OVER (PARTITION BY source ORDER BY MD5(target), target), 0) AS weight
    FROM stepped
),
cells AS (
    SELECT
        s.source,
        t.target,
        t.cell,
        CAST(COALESCE(w.weight, 0) * z.cells - 4294967296 AS BIGINT) AS excess
    FROM (SELECT source FROM weighed GROUP BY source) AS s
    CROSS JOIN targets AS t
    CROSS JOIN sized AS z
    LEFT JOIN weighed AS w ON w.source = s.source AND w.target = t.target
),
light AS (
    SELECT
        source,
        target,
        cell,
        excess,
        CAST(SUM(-excess) OVER (PARTITION BY source ORDER BY cell ROWS UNBOUNDED PRECEDING) AS BIGINT) AS filled
    FROM cells
    WHERE excess <= 0
),
heavy AS (
    SELECT
        source,
        target,
        cell,
        excess,
        CAST(SUM(excess) OVER (PARTITION BY source ORDER BY cell ROWS UNBOUNDED PRECEDING) AS BIGINT) AS spent,
        LEAD(target) OVER (PARTITION BY source ORDER BY cell) AS next_target
    FROM cells
    WHERE excess > 0
),
filled AS (
    SELECT l.source, l.cell, l.target, COALESCE(h.target, l.target) AS other, 4294967296 + l.excess AS cut
    FROM light AS l
    LEFT JOIN heavy AS h
        ON h.source = l.source
        AND h.spent > l.filled + l.excess
        AND h.spent - h.excess <= l.filled + l.excess
    UNION ALL
    SELECT h.source, h.cell, h.target, COALESCE(h.next_target, h.target) AS other, 4294967296 + h.spent - l.filled AS cut
    FROM heavy AS h
    JOIN light AS l ON l.source = h.source AND l.filled >= h.spent AND l.filled + l.excess < h.spent
)
SELECT
    f.source,
    CAST(f.cell AS BIGINT) AS cell,
    f.target,
    f.other,
    CAST(f.cut AS DOUBLE PRECISION) / 4294967296 AS cut,
    CAST(s.stay AS DOUBLE PRECISION) AS stay
FROM filled AS f
CROSS JOIN staying AS s
