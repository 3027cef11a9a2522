-- Classes hold at least k records, and no sensitive value (or none of the given ones) has a share above alpha.
-- cite: Wong et al. 2006
-- param: alpha number > 0 <= 1: largest share of a sensitive value in a class
-- param: k integer >= 2: smallest class allowed
-- param: guarded list default all: the sensitive values to limit
-- measures: largest share of a sensitive value in the class; worse when larger
-- needs: sensitive
-- monotone: yes; not under record suppression
-- excess: measured - :alpha, at most 1 - :alpha
SELECT class_id, measured
FROM (
    SELECT c.class_id, c.records, COALESCE(CAST(s.records AS DOUBLE PRECISION), 0) / c.records AS measured
    FROM classes AS c
    LEFT JOIN (
        SELECT v.class_id, MAX(v.records) AS records
        FROM class_values AS v
        JOIN totals AS t ON t.value = v.value
        JOIN guarded AS o ON o.label IS NOT DISTINCT FROM t.label
        GROUP BY v.class_id
    ) AS s ON s.class_id = c.class_id
) AS confidence
WHERE records < :k OR measured > :alpha + 1e-12
