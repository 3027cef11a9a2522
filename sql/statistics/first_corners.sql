-- The cells of a table that need protection, each as the first corner of its cubes.
SELECT
    open_needs.cell,
    open_needs.need,
    CAST(0 AS BIGINT) AS subtable,
    open_needs.cell AS other,
    open_needs.cell AS corner,
    1 AS side
FROM open_needs AS open_needs
INNER JOIN states AS states ON open_needs.cell = states.cell
