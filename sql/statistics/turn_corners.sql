-- Cubes in one dimension more: each corner, and the one that is turned to another node of a family.
-- param: below integer >= 1: the digits of a cell's number that lie below those of the dimension
-- param: above integer >= 1: those digits and the dimension's own
-- param: dimension integer >= 0: number of the dimension
SELECT
    corners.cell,
    corners.need,
    corners.subtable + turns.family AS subtable,
    corners.other + turns.step AS other,
    CASE WHEN ends.turned = 1 THEN corners.corner + turns.step ELSE corners.corner END AS corner,
    CASE WHEN ends.turned = 1 THEN corners.side * turns.side ELSE corners.side END AS side
FROM corners AS corners
INNER JOIN turns AS turns
    ON turns.dimension = :dimension AND turns.part = corners.cell % :above - corners.cell % :below
CROSS JOIN (SELECT 0 AS turned UNION ALL SELECT 1 AS turned) AS ends
