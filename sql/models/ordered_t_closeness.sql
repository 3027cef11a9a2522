-- As t_closeness, for an ordered attribute: the earth mover's distance where the N sorted values stand in a row with
-- equal steps, 1/(N-1) times the sum of the absolute differences of the cumulative shares. NULL comes first.
-- cite: Li, Li and Venkatasubramanian 2007
-- param: t number >= 0 <= 1: largest distance
-- measures: distance of the class to the table; worse when larger
-- needs: sensitive
-- monotone: yes; not under record suppression
WITH sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM class_values GROUP BY class_id
),
whole AS (
    SELECT t.value, CAST(t.records AS DOUBLE PRECISION) / w.records AS share
    FROM totals AS t
    CROSS JOIN (SELECT SUM(records) AS records FROM totals) AS w
),
cumulated AS (
    SELECT value, share, SUM(share) OVER (ORDER BY value) AS q FROM whole
),
area AS (
    SELECT
        value,
        q,
        LEAD(q) OVER (ORDER BY value) AS next_q,
        SUM(q) OVER (ORDER BY value) AS area
    FROM cumulated
),
cuts AS (
    SELECT 0 AS value, CAST(-1 AS DOUBLE PRECISION) AS q, MIN(q) AS next_q, CAST(0 AS DOUBLE PRECISION) AS area
    FROM area
    UNION ALL
    SELECT value, q, COALESCE(next_q, CAST('Infinity' AS DOUBLE PRECISION)) AS next_q, area FROM area
),
ends AS (SELECT MAX(value) AS n, MAX(area) AS area FROM area),
steps AS (
    SELECT
        v.class_id,
        v.value AS a,
        LEAD(v.value) OVER (PARTITION BY v.class_id ORDER BY v.value) - 1 AS b,
        ROW_NUMBER() OVER (PARTITION BY v.class_id ORDER BY v.value) AS place,
        SUM(v.records) OVER (PARTITION BY v.class_id ORDER BY v.value) / s.records AS p
    FROM class_values AS v
    JOIN sizes AS s ON s.class_id = v.class_id
),
-- The cumulative share of a class is constant between two of its values, so absent values need no rows: between
-- positions a and b, with cumulative share p, the sum of |p - Q_i| follows from running sums of Q, split at the
-- position z up to which Q_i <= p.
pieces AS (
    SELECT
        t.class_id,
        t.a,
        COALESCE(t.b, e.n) AS b,
        t.p,
        LEAST(GREATEST(z.value, t.a - 1), COALESCE(t.b, e.n)) AS z,
        CASE WHEN t.place = 1 THEN before_a.area ELSE 0 END AS head,
        before_a.area AS area_a,
        COALESCE(at_b.area, e.area) AS area_b,
        CASE
            WHEN z.value < t.a THEN before_a.area
            WHEN z.value > COALESCE(t.b, e.n) THEN COALESCE(at_b.area, e.area)
            ELSE z.area
        END AS area_z
    FROM steps AS t
    CROSS JOIN ends AS e
    JOIN cuts AS z ON t.p >= z.q AND t.p < z.next_q
    JOIN cuts AS before_a ON before_a.value = t.a - 1
    LEFT JOIN cuts AS at_b ON at_b.value = t.b
)
SELECT class_id, measured
FROM (
    SELECT
        p.class_id,
        CASE
            WHEN MAX(e.n) = 1 THEN 0
            ELSE GREATEST(SUM(
                p.head
                + p.p * (p.z - p.a + 1) - (p.area_z - p.area_a)
                + (p.area_b - p.area_z) - p.p * (p.b - p.z)
            ), 0) / (MAX(e.n) - 1)
        END AS measured
    FROM pieces AS p
    CROSS JOIN ends AS e
    GROUP BY p.class_id
) AS distance
WHERE measured > :t + 1e-9
