-- The positions of the paths of every span that at least k paths share, without what lies before and after the span.
-- param: k integer >= 1: paths
SELECT p.person, s.span, p.tick, p.x, p.y
FROM positions AS p
JOIN spans AS s ON s.person = p.person
WHERE s.paths >= :k AND p.tick >= s.first_tick AND p.tick <= s.last_tick
