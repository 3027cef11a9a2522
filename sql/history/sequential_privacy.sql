-- Sequential (X,Y)-privacy: on the lossy join of the new release with each of the releases beside it, every value on X
-- holds k rows at least of either release, and no sensitive value can be inferred from it with a confidence above h.
-- Columns that both releases show are joined: values match where they are equal, or lie on one path of their hierarchy.
-- X may be columns of either release. Only the new release is changed for it: its levels are raised until it holds.
-- cite: Wang and Fung 2006
-- param: x columns: the columns of either release that an attacker knows
-- param: k integer >= 2: fewest rows of either release for a value on X
-- param: h number > 0 <= 1 default 1.0: largest confidence of inferring a sensitive value of either release
-- measures: largest confidence of inferring a value; worse when larger
-- monotone: yes; not under record suppression
SELECT class_id, version, CAST(NULL AS BIGINT) AS past_class_id, measured
FROM (
    SELECT
        j.class_id,
        j.version,
        LEAST(j.ours, j.theirs) AS records,
        COALESCE(CAST(v.records AS DOUBLE PRECISION), 0) / j.records AS measured
    FROM joined AS j
    LEFT JOIN (SELECT class_id, MAX(records) AS records FROM joined_values GROUP BY class_id) AS v
        ON v.class_id = j.class_id
) AS confidence
WHERE records < :k OR measured > :h + 1e-12
