-- As t_closeness, for an ordered attribute: the earth mover's distance where the N sorted values stand in a row with
-- equal steps, 1/(N-1) times the sum of the absolute differences of the cumulative shares. NULL comes first.
-- NULL is a value here: a missing value tells something, and its share is compared like any other. The value behind
-- a NULL is not protected; see the diversity models for unknown values.
-- cite: Li, Li and Venkatasubramanian 2007
-- param: t number >= 0 <= 1: largest distance
-- measures: distance of the class to the table; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
-- excess: measured - :t, at most 1 - :t
-- Q is the cumulative share of a value in the table, and its running sum A that of all up to it: a value at place j counts
-- i - j + 1 times in A_i, so that both follow from running sums of one pass.
WITH whole AS (
    SELECT
        value,
        SUM(CAST(records AS DOUBLE PRECISION)) OVER (ORDER BY value) / SUM(records) OVER () AS q,
        (
            (value + 1) * SUM(CAST(records AS DOUBLE PRECISION)) OVER (ORDER BY value)
            - SUM(CAST(value AS DOUBLE PRECISION) * records) OVER (ORDER BY value)
        ) / SUM(records) OVER () AS area,
        COUNT(*) OVER () AS n
    FROM totals
),
-- The cumulative share p of a class is constant from one of its values, a, up to the place b before its next one, so
-- absent values need no rows. Over the places a to b the sum of |p - Q_i| follows from the running sums A of Q, split
-- at the place z up to which Q_i <= p: p (2z - a - b + 1) + A(a-1) + A(b) - 2 A(z). Since b + 1 is the next a, and
-- p is 0 before the first, the whole adds up to A(N) and p (2z - a - b + 1) + 2 (A(a-1) - A(z)) for each a.
steps AS (
    SELECT
        class_id,
        value AS a,
        LEAD(value) OVER (PARTITION BY class_id ORDER BY value) - 1 AS b,
        SUM(CAST(records AS DOUBLE PRECISION)) OVER (PARTITION BY class_id ORDER BY value)
        / SUM(records) OVER (PARTITION BY class_id) AS p
    FROM class_values
),
spans AS (
    SELECT s.class_id, s.p, s.a, COALESCE(s.b, w.n) AS b, w.q AS q_a, w.area - w.q AS area_before_a
    FROM steps AS s
    JOIN whole AS w ON w.value = s.a
),
-- z is a - 1 where p is below Q_a, and a where a is the only place. For the others, sorting the Q_i among the p finds
-- every z in one pass; of equal ones all are counted.
marks AS (
    SELECT
        q AS p,
        value,
        CAST(NULL AS BIGINT) AS class_id,
        CAST(NULL AS BIGINT) AS a,
        CAST(NULL AS BIGINT) AS b,
        CAST(NULL AS DOUBLE PRECISION) AS area_before_a
    FROM whole
    UNION ALL
    SELECT p, NULL AS value, class_id, a, b, area_before_a FROM spans WHERE q_a <= p AND a < b
),
located AS (
    SELECT class_id, p, a, b, area_before_a, COUNT(value) OVER (ORDER BY p) AS place FROM marks
),
parts AS (
    SELECT class_id, CASE WHEN p < q_a THEN -p * (b - a + 1) ELSE p - 2 * q_a END AS area
    FROM spans
    WHERE p < q_a OR a = b
    UNION ALL
    SELECT l.class_id, l.p * (2 * w.value - l.a - l.b + 1) + 2 * (l.area_before_a - w.area) AS area
    FROM located AS l
    JOIN whole AS w ON w.value = LEAST(l.place, l.b)
),
sums AS (
    SELECT class_id, SUM(area) AS area FROM parts GROUP BY class_id
)
SELECT class_id, measured
FROM (
    SELECT s.class_id, CASE WHEN w.n = 1 THEN 0 ELSE GREATEST(w.area + s.area, 0) / (w.n - 1) END AS measured
    FROM sums AS s
    JOIN whole AS w ON w.value = w.n
) AS distance
WHERE measured > :t + 1e-9
