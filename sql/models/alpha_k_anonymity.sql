-- Classes hold at least k records, and no sensitive value (or none of the given ones) has a share above alpha.
-- NULLs are unknown values and count as the value with the largest share, so that it holds whatever they are, unless
-- the policy says `sensitive_nulls: value`.
-- cite: Wong et al. 2006
-- param: alpha number > 0 <= 1: largest share of a sensitive value in a class
-- param: k integer >= 2: smallest class allowed
-- param: guarded list default all: the sensitive values to limit
-- measures: largest share of a sensitive value in the class; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
-- excess: measured - :alpha, at most 1 - :alpha
-- bounds: share(guarded, alpha)
SELECT class_id, measured
FROM (
    SELECT c.class_id, c.records, LEAST(COALESCE(s.records, 0) / c.records, 1) AS measured
    FROM classes AS c
    LEFT JOIN (
        SELECT
            v.class_id,
            CAST(
                MAX(CASE WHEN o.value IS NOT NULL THEN v.known * v.records ELSE 0 END) + SUM((1 - v.known) * v.records)
                AS DOUBLE PRECISION
            ) AS records
        FROM class_values AS v
        LEFT JOIN (
            SELECT DISTINCT t.value FROM totals AS t JOIN guarded AS g ON g.label IS NOT DISTINCT FROM t.label
        ) AS o ON o.value = v.value
        GROUP BY v.class_id
    ) AS s ON s.class_id = c.class_id
) AS confidence
WHERE records < :k OR measured > :alpha + 1e-12
