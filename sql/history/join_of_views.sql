-- Releases of one table that show different columns are joined on the columns that they have in common, as an attacker
-- would do it. Values match where they are equal or lie on one path of their hierarchy (the lossy join). An attacker
-- who knows the quasi-identifiers of both finds a class of the join. Each class holds at least k rows of either
-- release, and every model of the policies of both releases holds on the join, whose classes are made by the
-- quasi-identifiers of both. A class of the join has a row for each matching pair, but no more persons than the smaller
-- number of rows of the two: that number counts. All versions of the other release are compared, replaced ones too.
-- Each model says what a NULL in a sensitive column means there.
-- cite: Wang and Fung 2006; Yao, Wang and Jajodia 2005
-- param: k integer >= 2: fewest rows of either release in a class of the join
-- measures: rows of a release in a class of the join; worse when smaller
-- monotone: no
-- traits: raise, join, own_models
SELECT class_id, version, CAST(NULL AS BIGINT) AS past_class_id, LEAST(ours, theirs) AS measured
FROM joined
WHERE LEAST(ours, theirs) < :k
