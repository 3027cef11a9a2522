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
    SELECT value, SUM(share) OVER (ORDER BY value) AS q FROM whole
),
area AS (
    SELECT value, q, SUM(q) OVER (ORDER BY value) AS area FROM cumulated
),
ends AS (SELECT MAX(value) AS n, MAX(area) AS area FROM area),
steps AS (
    SELECT
        v.class_id,
        v.value AS a,
        LEAD(v.value) OVER (PARTITION BY v.class_id ORDER BY v.value) - 1 AS b,
        ROW_NUMBER() OVER (PARTITION BY v.class_id ORDER BY v.value) AS place,
        SUM(v.records) OVER (PARTITION BY v.class_id ORDER BY v.value) / s.records AS p,
        r.area - r.q AS area_a,
        LEAD(r.area - r.q) OVER (PARTITION BY v.class_id ORDER BY v.value) AS area_b
    FROM class_values AS v
    JOIN sizes AS s ON s.class_id = v.class_id
    JOIN area AS r ON r.value = v.value
),
-- The cumulative share p of a class is constant from one of its values to the next, so absent values need no rows:
-- over the positions a to b the sum of |p - Q_i| follows from running sums of Q, split at the position z up to which
-- Q_i <= p. Sorting the Q_i among the p finds every z in one pass.
marks AS (
    SELECT
        q AS p,
        0 AS kind,
        value AS z,
        area AS area_z,
        CAST(NULL AS BIGINT) AS class_id,
        CAST(NULL AS BIGINT) AS a,
        CAST(NULL AS BIGINT) AS b,
        CAST(NULL AS BIGINT) AS place,
        CAST(NULL AS DOUBLE PRECISION) AS area_a,
        CAST(NULL AS DOUBLE PRECISION) AS area_b
    FROM area
    UNION ALL
    SELECT p, 1 AS kind, NULL AS z, NULL AS area_z, class_id, a, b, place, area_a, area_b FROM steps
),
located AS (
    SELECT
        kind,
        class_id,
        p,
        a,
        b,
        place,
        area_a,
        area_b,
        COALESCE(MAX(z) OVER (ORDER BY p, kind), 0) AS z,
        COALESCE(MAX(area_z) OVER (ORDER BY p, kind), 0) AS area_z
    FROM marks
),
pieces AS (
    SELECT
        l.class_id,
        l.p,
        l.a,
        COALESCE(l.b, e.n) AS b,
        LEAST(GREATEST(l.z, l.a - 1), COALESCE(l.b, e.n)) AS z,
        CASE WHEN l.place = 1 THEN l.area_a ELSE 0 END AS head,
        l.area_a,
        COALESCE(l.area_b, e.area) AS area_b,
        LEAST(GREATEST(l.area_z, l.area_a), COALESCE(l.area_b, e.area)) AS area_z
    FROM located AS l
    CROSS JOIN ends AS e
    WHERE l.kind = 1
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
