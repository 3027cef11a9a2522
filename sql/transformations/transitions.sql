-- Where each draw leads, as an alias table: a draw below `stay`, the probability that every value has to stay, leaves it.
-- Of the others, u = (draw - stay) / (1 - stay) points to the cell FLOOR(u * n), n being the number of values, and there to
-- `target` if the rest of u * n is below `cut`, else to `other`.
-- cite: Walker 1977, An efficient method for generating discrete random variables with general distributions;
--   Hübschle-Schneider and Sanders 2019, Parallel weighted random sampling (all cells at once, by running sums)
-- moves(source, target, p): a Markov matrix, whose targets are among its sources; what is missing is 0
-- Probabilities are rounded to multiples of 2^-32, so that sums are exact, and equal on every engine. Each value has a cell
-- of its own in every row; what is missing in those with a low probability is filled up from those with a high one, in their
-- order. What rounding leaves over stays where it is, in the last cells.
WITH kept AS (SELECT source, SUM(CASE WHEN target = source THEN p ELSE 0 END) AS p FROM moves GROUP BY source),
whole AS (
    -- Rounded down by more than what the order of a sum changes, and below 1.
    SELECT COUNT(*) AS cells, LEAST(GREATEST(FLOOR(MIN(p) * 1048576 - 0.3), 0) / 1048576, 0.9375) AS stay FROM kept
),
numbered AS (SELECT source AS value, ROW_NUMBER() OVER (ORDER BY MD5(source), source) - 1 AS cell FROM kept),
cells AS (
    SELECT
        s.value AS source,
        t.value AS target,
        t.cell,
        w.cells * CAST(
            FLOOR(
                (COALESCE(m.p, 0) - CASE WHEN t.value = s.value THEN w.stay ELSE 0 END) / (1 - w.stay) * 4294967296 + 0.5
            ) AS BIGINT
        ) - 4294967296 AS excess
    FROM numbered AS s
    CROSS JOIN numbered AS t
    CROSS JOIN whole AS w
    LEFT JOIN moves AS m ON m.source = s.value AND m.target = t.value
),
running AS (
    SELECT
        source,
        target,
        cell,
        excess,
        CAST(
            SUM(GREATEST(-excess, 0)) OVER (PARTITION BY source ORDER BY cell ROWS UNBOUNDED PRECEDING) AS BIGINT
        ) AS filled,
        CAST(
            SUM(GREATEST(excess, 0)) OVER (PARTITION BY source ORDER BY cell ROWS UNBOUNDED PRECEDING) AS BIGINT
        ) AS spent
    FROM cells
),
light AS (SELECT source, target, cell, excess, filled FROM running WHERE excess <= 0),
heavy AS (SELECT source, target, cell, excess, spent FROM running WHERE excess > 0),
cut_up AS (
    SELECT l.source, l.cell, l.target, COALESCE(h.target, l.target) AS other, 4294967296 + l.excess AS cut
    FROM light AS l
    LEFT JOIN heavy AS h
        ON h.source = l.source
        AND h.spent > l.filled + l.excess
        AND h.spent - h.excess <= l.filled + l.excess
    UNION ALL
    SELECT
        h.source,
        h.cell,
        h.target,
        COALESCE(n.target, h.target) AS other,
        4294967296 + COALESCE(h.spent - l.filled, 0) AS cut
    FROM heavy AS h
    LEFT JOIN light AS l ON l.source = h.source AND l.filled >= h.spent AND l.filled + l.excess < h.spent
    LEFT JOIN heavy AS n ON n.source = h.source AND n.spent - n.excess = h.spent
)
SELECT
    c.source,
    CAST(c.cell AS BIGINT) AS cell,
    c.target,
    c.other,
    CAST(c.cut AS DOUBLE PRECISION) / 4294967296 AS cut,
    CAST(w.stay AS DOUBLE PRECISION) AS stay,
    CAST(w.cells AS DOUBLE PRECISION) AS cells
FROM cut_up AS c
CROSS JOIN whole AS w
