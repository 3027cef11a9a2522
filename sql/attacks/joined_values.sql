-- The attacker has two releases that show different columns, joins them on the columns that both show, and finds the
-- sensitive value that most records of a class of the join have: {30, US} tells cancer, although neither release shows
-- the age beside the disease. Values match as in `joined_views`. The model across releases `sequential_privacy`
-- withstands it.
-- cite: Wang and Fung 2006
-- param: certainty number > 0 <= 1 default 1: a person is broken if this share of a class of the join has one value
-- measures: confidence, that a person of a class of the join has its most frequent value
-- no_guess: rows of two releases are joined, and no person is looked up
-- needs: other, sensitive, views
SELECT
    LEAST(j.ours, j.theirs) AS persons,
    LEAST(CAST(v.records AS DOUBLE PRECISION) / j.records, 1) AS confidence,
    CASE WHEN CAST(v.records AS DOUBLE PRECISION) / j.records >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM joined AS j
JOIN (SELECT class_id, MAX(records) AS records FROM joined_values GROUP BY class_id) AS v ON v.class_id = j.class_id
