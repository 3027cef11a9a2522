-- Releases of one table that show other columns are joined on the columns that they have in common, as an attacker
-- would: values match where they are equal, or lie on one path of their hierarchy (the lossy join). Whoever knows the
-- quasi-identifiers of both then finds a class of the join. Each class holds k rows at least of either release; and
-- every model of the policies of both releases holds on the join, whose classes are made by the quasi-identifiers of
-- both. A class of the join has a row for each pair that matches, but no more persons than the smaller number of rows
-- of the two: that is what is counted. All versions of the other release are looked at, also those that were replaced.
-- cite: Wang and Fung 2006; Yao, Wang and Jajodia 2005
-- param: k integer >= 2: fewest rows of either release in a class of the join
-- measures: rows of a release in a class of the join; worse when smaller
-- monotone: no
SELECT class_id, version, CAST(NULL AS BIGINT) AS past_class_id, LEAST(ours, theirs) AS measured
FROM joined
WHERE LEAST(ours, theirs) < :k
