-- The given sensitive value can be inferred from the quasi-identifiers with confidence h at most. Each use is one
-- template <QID -> value, h>; write one for each value, with its own qid if needed. NULLs are unknown values and count
-- as the given value, so that it holds whatever they are, unless the policy says `sensitive_nulls: value`.
-- cite: Wang, Fung and Yu 2005, 2007
-- param: value text: the sensitive value
-- param: h number > 0 <= 1: largest confidence
-- measures: confidence of inferring the value from the class; worse when larger
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
-- excess: measured - :h, at most 1 - :h
-- bounds: share(value, h)
SELECT class_id, measured
FROM (
    SELECT c.class_id, LEAST(COALESCE(s.records, 0) / c.records, 1) AS measured
    FROM classes AS c
    LEFT JOIN (
        SELECT v.class_id, CAST(SUM(v.records) AS DOUBLE PRECISION) AS records
        FROM class_values AS v
        JOIN totals AS t ON t.value = v.value
        WHERE t.label = :value OR v.known = 0
        GROUP BY v.class_id
    ) AS s ON s.class_id = c.class_id
) AS confidence
WHERE measured > :h + 1e-12
