-- Every value on X occurs in at least k records, and none of the given sensitive values can be inferred from it
-- with a confidence above h.
-- NULLs are unknown values and count as the value with the largest share, so that it holds whatever they are, unless
-- the policy says `sensitive_nulls: value`.
-- cite: Wang and Fung 2006
-- param: x columns: the columns that an attacker knows
-- param: guarded list default all: the sensitive values on Y to limit
-- param: k integer >= 2: fewest records
-- param: h number > 0 <= 1: largest confidence
-- measures: largest confidence of inferring a value; worse when larger
-- needs: sensitive
-- classes: x
-- monotone: yes; not under record suppression
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
WHERE records < :k OR measured > :h + 1e-12
