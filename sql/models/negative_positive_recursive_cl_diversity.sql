-- Positive-disclosure recursive (c1,l)-diversity, and none of the given values may be ruled out: each of them has
-- a share of at least c2 in every class.
-- NULLs are unknown values and count as the most frequent guarded value of their class, so that it holds whatever
-- they are, unless the policy says `sensitive_nulls: value`.
-- cite: Machanavajjhala et al. 2007, definition 4.4
-- param: c1 number > 0: how far the most frequent guarded value may exceed the tail
-- param: c2 number > 0 <= 1: smallest share of each protected value
-- param: l integer >= 2: where the tail begins
-- param: dont_care list default none: sensitive values whose disclosure does no harm
-- param: protect list: sensitive values whose absence must not be disclosed
-- measures: share of the most frequent guarded value to its tail, which c1 must exceed; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
WITH ranked AS (
    SELECT
        v.class_id,
        v.records,
        v.known,
        CASE WHEN d.label IS NULL THEN 1 ELSE 0 END AS guarded,
        ROW_NUMBER() OVER (
            PARTITION BY v.class_id
            ORDER BY v.known DESC, v.records DESC, CASE WHEN d.label IS NULL THEN 0 ELSE 1 END, v.value
        ) AS place
    FROM class_values AS v
    JOIN totals AS t ON t.value = v.value
    LEFT JOIN dont_care AS d ON d.label = t.label
),
firsts AS (
    SELECT class_id, MIN(CASE WHEN guarded = 1 AND known = 1 THEN place END) AS place FROM ranked GROUP BY class_id
),
-- The tail begins at the place l - 1 of the values beside the guarded one.
sums AS (
    SELECT
        r.class_id,
        CAST(
            COALESCE(MAX(CASE WHEN r.place = f.place THEN r.records END), 0) + SUM((1 - r.known) * r.records)
            AS DOUBLE PRECISION
        ) AS most,
        CAST(SUM(
            CASE
                WHEN r.known = 0 OR r.place = f.place THEN 0
                WHEN r.place - CASE WHEN r.place > f.place THEN 1 ELSE 0 END >= :l - 1 THEN r.records
                ELSE 0
            END
        ) AS DOUBLE PRECISION) AS tail
    FROM ranked AS r
    JOIN firsts AS f ON f.class_id = r.class_id
    GROUP BY r.class_id
),
shares AS (
    SELECT
        c.class_id,
        MIN(COALESCE(CAST(v.records AS DOUBLE PRECISION), 0) / c.records) AS share
    FROM classes AS c
    CROSS JOIN protect AS p
    LEFT JOIN totals AS t ON t.label = p.label
    LEFT JOIN class_values AS v ON v.class_id = c.class_id AND v.value = t.value
    GROUP BY c.class_id
)
SELECT
    sums.class_id,
    CASE
        WHEN sums.most = 0 THEN 0
        WHEN sums.tail = 0 THEN CAST('Infinity' AS DOUBLE PRECISION)
        ELSE sums.most / sums.tail
    END AS measured
FROM sums
JOIN shares ON shares.class_id = sums.class_id
WHERE (sums.most > 0 AND sums.most >= :c1 * sums.tail * (1 - 1e-12)) OR shares.share < :c2 - 1e-12
