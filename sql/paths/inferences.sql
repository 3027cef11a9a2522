-- What adversaries infer: for each projection of an adversary, the persons who have it, and how many of these visited a
-- place that is not the adversary's own.
-- cite: Terrovitis and Mamoulis 2008, Privacy preservation in the publication of trajectories
SELECT
    ROW_NUMBER() OVER () AS class_id,
    c.adversary,
    c.projection,
    c.place,
    s.persons AS records,
    c.matching
FROM (
    SELECT q.adversary, q.projection, v.place, COUNT(*) AS matching
    FROM projections AS q
    JOIN (SELECT DISTINCT person, place FROM visits) AS v ON v.person = q.person
    LEFT JOIN owners AS o ON o.place = v.place AND o.adversary = q.adversary
    WHERE o.place IS NULL
    GROUP BY q.adversary, q.projection, v.place
) AS c
JOIN projection_sizes AS s ON s.adversary = c.adversary AND s.projection = c.projection
