-- Sequential (X,Y)-privacy: on the lossy join of the new release with each of the releases beside it, every value on X
-- holds at least k rows of either release, and no sensitive value can be inferred from it with a confidence above h.
-- The join is on the columns that both releases show; values match where they are equal or lie on one path of their
-- hierarchy. X may be columns of either release. Only the new release is changed: its levels are raised until the model
-- holds. NULLs are unknown values and count as the most frequent one, so that it holds whatever they are, unless the
-- policy says `sensitive_nulls: value`.
-- cite: Wang and Fung 2006
-- param: x columns: the columns of either release that an attacker knows
-- param: k integer >= 2: fewest rows of either release for a value on X
-- param: h number > 0 <= 1 default 1.0: largest confidence of inferring a sensitive value of either release
-- measures: largest confidence of inferring a value; worse when larger
-- monotone: no
-- traits: raise, join
SELECT class_id, version, CAST(NULL AS BIGINT) AS past_class_id, measured
FROM (
    SELECT
        j.class_id,
        j.version,
        LEAST(j.ours, j.theirs) AS records,
        LEAST(COALESCE(CAST(v.records AS DOUBLE PRECISION), 0) / j.records, 1) AS measured
    FROM joined AS j
    LEFT JOIN (
        SELECT
            w.class_id,
            MAX(CASE WHEN x.value IS NULL THEN w.records ELSE 0 END)
            + SUM(CASE WHEN x.value IS NULL THEN 0 ELSE w.records END) AS records
        FROM joined_values AS w
        LEFT JOIN unknown AS x ON x.value = w.value
        GROUP BY w.class_id
    ) AS v ON v.class_id = j.class_id
) AS confidence
WHERE records < :k OR measured > :h + 1e-12
