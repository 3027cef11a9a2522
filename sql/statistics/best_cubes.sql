-- For each cell that needs protection and each of its sub-tables, the cube that protects it and hides the fewest other
-- cells, then those of the least weight. No other corner may be a cell that helps nobody. The corners that move with the
-- cell must be free to move as far as it must, and all others the opposite way.
WITH cubes AS (
    SELECT
        corners.cell,
        corners.need,
        corners.subtable,
        corners.other,
        SUM(CASE WHEN needs.cell IS NULL AND states.forced = 0 THEN 1 ELSE 0 END) AS fresh,
        SUM(CASE WHEN needs.cell IS NULL AND states.forced = 0 THEN states.weight ELSE 0 END) AS weight
    FROM corners AS corners
    INNER JOIN states AS own ON corners.cell = own.cell
    LEFT JOIN states AS states ON corners.corner = states.cell
    LEFT JOIN needs AS needs ON corners.corner = needs.cell
    GROUP BY corners.cell, corners.need, corners.subtable, corners.other
    HAVING
        MIN(CASE WHEN states.helps = 1 OR corners.corner = corners.cell THEN 1 ELSE 0 END) = 1
        AND MIN(CASE WHEN corners.side = 1 THEN states.room_up ELSE states.room_down END) >= MAX(corners.need)
        AND MIN(CASE WHEN corners.side = 1 THEN states.room_down ELSE states.room_up END)
        >= MAX(LEAST(corners.need, own.room_down))
)

SELECT cell, need, subtable, other, fresh
FROM (
    SELECT
        cubes.*,
        ROW_NUMBER() OVER (
            PARTITION BY cubes.cell, cubes.subtable ORDER BY cubes.fresh, cubes.weight, cubes.other
        ) AS place
    FROM cubes AS cubes
) AS ranked
WHERE place = 1
