-- Hidden cells with what they need, after some cubes were taken: every corner must be free to move as far as the cell.
SELECT cell, MAX(need) AS need
FROM (
    SELECT cell, need FROM needs
    UNION ALL
    SELECT corners.corner AS cell, cubes.need
    FROM cubes AS cubes
    INNER JOIN corners AS corners
        ON cubes.cell = corners.cell AND cubes.subtable = corners.subtable AND cubes.other = corners.other
) AS both_needs
GROUP BY cell
