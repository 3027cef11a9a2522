-- Normalized average class size: how many times larger the average class is than the k that was asked for.
-- cite: LeFevre, DeWitt and Ramakrishnan 2006
-- param: k integer >= 1 default 1: the class size asked for
-- measures: average size of the released classes over k; worse when larger
-- monotone: no, with suppression
SELECT SUM(CAST(records AS DOUBLE PRECISION)) / NULLIF(COUNT(*), 0) / :k AS loss FROM recoded_classes WHERE kept = 1
