-- In every class the most frequent sensitive value is rarer than c times all values from the l-th most frequent
-- on: r_1 < c * (r_l + ... + r_m). A class with fewer than l values fails.
-- NULLs are unknown values and count as the most frequent value of their class, so that it holds whatever they are,
-- unless the policy says `sensitive_nulls: value`.
-- cite: Machanavajjhala et al. 2006
-- param: c number > 0: how far the most frequent value may exceed the tail
-- param: l integer >= 1: where the tail begins
-- measures: r_1 / (r_l + ... + r_m), which c must exceed; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
-- bounds: tail(c, l)
WITH ranked AS (
    SELECT
        class_id,
        records,
        known,
        ROW_NUMBER() OVER (PARTITION BY class_id ORDER BY known DESC, records DESC, value) AS place
    FROM class_values
),
sums AS (
    SELECT
        class_id,
        CAST(MAX(known * records) + SUM((1 - known) * records) AS DOUBLE PRECISION) AS most,
        -- With l = 1 the tail is the whole class.
        CAST(SUM(CASE WHEN place >= :l AND (known = 1 OR :l = 1) THEN records ELSE 0 END) AS DOUBLE PRECISION) AS tail
    FROM ranked
    GROUP BY class_id
)
SELECT
    class_id,
    CASE WHEN tail = 0 THEN CAST('Infinity' AS DOUBLE PRECISION) ELSE most / tail END AS measured
FROM sums
WHERE most >= :c * tail * (1 - 1e-12)
