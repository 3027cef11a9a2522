-- In every class the most frequent sensitive value is rarer than c times all values from the l-th most frequent
-- on: r_1 < c * (r_l + ... + r_m). A class with fewer than l values fails.
-- cite: Machanavajjhala et al. 2006
-- param: c number > 0: how far the most frequent value may exceed the tail
-- param: l integer >= 1: where the tail begins
-- measures: r_1 / (r_l + ... + r_m), which c must exceed; worse when larger
-- needs: sensitive
-- monotone: yes; not under record suppression
WITH ranked AS (
    SELECT
        class_id,
        records,
        ROW_NUMBER() OVER (PARTITION BY class_id ORDER BY records DESC, value) AS place
    FROM class_values
),
sums AS (
    SELECT
        class_id,
        CAST(MAX(records) AS DOUBLE PRECISION) AS most,
        CAST(SUM(CASE WHEN place >= :l THEN records ELSE 0 END) AS DOUBLE PRECISION) AS tail
    FROM ranked
    GROUP BY class_id
)
SELECT
    class_id,
    CASE WHEN tail = 0 THEN CAST('Infinity' AS DOUBLE PRECISION) ELSE most / tail END AS measured
FROM sums
WHERE most >= :c * tail * (1 - 1e-12)
