-- The cubes that are taken: those that hide nothing more, and in each sub-table the one of the greatest need.
SELECT cell, need, subtable, other, fresh
FROM (
    SELECT
        cubes.*,
        ROW_NUMBER() OVER (
            PARTITION BY cubes.subtable, CASE WHEN cubes.fresh > 0 THEN 1 ELSE 0 END ORDER BY cubes.need DESC, cubes.cell
        ) AS place
    FROM cubes AS cubes
) AS ranked
WHERE fresh = 0 OR place = 1
