-- From the quasi-identifiers the given sensitive value can be inferred with confidence h at most. Each use is one
-- template <QID -> value, h>; write one for each value, with its own qid if need be.
-- cite: Wang, Fung and Yu 2005, 2007
-- param: value text: the sensitive value
-- param: h number > 0 <= 1: largest confidence
-- measures: confidence of inferring the value from the class; worse when larger
-- needs: sensitive
-- monotone: yes; not under record suppression
-- excess: measured - :h, at most 1 - :h
SELECT class_id, measured
FROM (
    SELECT c.class_id, COALESCE(CAST(s.records AS DOUBLE PRECISION), 0) / c.records AS measured
    FROM classes AS c
    LEFT JOIN (
        SELECT v.class_id, v.records
        FROM class_values AS v
        JOIN totals AS t ON t.value = v.value
        WHERE t.label = :value
    ) AS s ON s.class_id = c.class_id
) AS confidence
WHERE measured > :h + 1e-12
