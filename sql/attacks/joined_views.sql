-- The attacker has two releases that show different columns and joins them on the columns that both show. A class of
-- the quasi-identifiers of both holds no more persons than records of either. Values match where they are equal or lie
-- on one path of their hierarchy. The models across releases `join_of_views` and `sequential_privacy` withstand it.
-- cite: Wang and Fung 2006; Yao, Wang and Jajodia 2005
-- param: certainty number > 0 <= 1 default 1: a person is broken if the confidence is at least this
-- measures: confidence, 1 over the number of records of a class of the join
-- no_guess: rows of two releases are joined, and no person is looked up
-- needs: other
SELECT
    LEAST(ours, theirs) AS persons,
    CAST(1 AS DOUBLE PRECISION) / LEAST(ours, theirs) AS confidence,
    CASE WHEN CAST(1 AS DOUBLE PRECISION) / LEAST(ours, theirs) >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM joined
