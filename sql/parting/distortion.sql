-- Rows that get another value, so that no class shows more sensitive values than others do.
-- cite: Wong, Fu, Wang and Pei 2007, Minimality attack in privacy preserving data publishing
-- param: twice_m integer: at most one in so many rows of a class may have a sensitive value
-- param: broken integer: the number of classes where it is more
-- param: draws integer: draws are integers from 0 to below this
-- classes(label, n, sensitive, draw); members(row_id, label, one, draw, second): rows, and whether they are sensitive;
-- others(original, low, high): values that are not sensitive, and the parts of 0 to 1 that stand for them.
-- The classes with the largest shares below the limit are the models; each broken class takes the share of one of them.
WITH models AS (
    SELECT n, sensitive, ROW_NUMBER() OVER (ORDER BY CAST(sensitive AS DOUBLE PRECISION) / n DESC, draw, label) AS place
    FROM classes
    WHERE sensitive * :twice_m <= n
),
broken AS (
    SELECT label, n, FLOOR(CAST(draw AS DOUBLE PRECISION) * ((:twice_m - 1) * :broken) / :draws) + 1 AS place
    FROM classes
    WHERE sensitive * :twice_m > n
),
wanted AS (
    SELECT b.label, FLOOR(CAST(b.n AS DOUBLE PRECISION) * m.sensitive / m.n + 1e-9) AS kept
    FROM broken AS b
    JOIN models AS m ON m.place = b.place
),
ranked AS (
    SELECT row_id, label, second, ROW_NUMBER() OVER (PARTITION BY label ORDER BY draw, row_id) AS place
    FROM members
    WHERE one = 1
)
SELECT r.row_id, o.original
FROM ranked AS r
JOIN wanted AS w ON w.label = r.label AND r.place > w.kept
JOIN others AS o
    ON (CAST(r.second AS DOUBLE PRECISION) + 0.5) / :draws >= o.low
    AND (CAST(r.second AS DOUBLE PRECISION) + 0.5) / :draws < o.high
