-- The visits without those that go: in the paths with a projection of an adversary, the visits to the adversary's places
-- whose ordinal numbers in the projection are listed.
-- param: adversary integer >= 0: whose places
-- param: projection text: which paths
SELECT v.person, v.visit, v.place
FROM visits AS v
LEFT JOIN (
    SELECT q.person, n.visit
    FROM projections AS q
    JOIN (
        SELECT u.person, u.visit, ROW_NUMBER() OVER (PARTITION BY u.person ORDER BY u.visit) AS ordinal
        FROM visits AS u
        JOIN owners AS o ON o.place = u.place
        WHERE o.adversary = :adversary
    ) AS n ON n.person = q.person
    JOIN dropped AS d ON d.ordinal = n.ordinal
    WHERE q.adversary = :adversary AND q.projection = :projection
) AS gone ON gone.person = v.person AND gone.visit = v.visit
WHERE gone.person IS NULL
