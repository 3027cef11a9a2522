-- Every value on X occurs in at least k records, and none of the given sensitive values can be inferred from it
-- with a confidence above h.
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
WHERE records < :k OR measured > :h + 1e-12
