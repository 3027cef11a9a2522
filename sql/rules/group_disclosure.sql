-- A cell tells about its whole group if all of its contributors are in one of the parts that it is split into: then the
-- other parts are empty, and one of these must be able to be more. That empty part is what is unsafe.
-- cite: Hundepool et al. 2012
-- needs: empty_cells
SELECT emptied.cell, 1 AS level
FROM (
    SELECT MIN(CASE WHEN part.contributors = 0 THEN part.cell END) AS cell
    FROM members AS members
    INNER JOIN cells AS whole ON members.total = whole.cell
    INNER JOIN cells AS part ON members.part = part.cell
    WHERE whole.protected > 0
    GROUP BY members.total, members.dimension
    HAVING SUM(CASE WHEN part.contributors > 0 THEN 1 ELSE 0 END) = 1 AND COUNT(*) > 1
) AS emptied
GROUP BY emptied.cell
