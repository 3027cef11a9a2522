-- Cells with needs that were looked at and for which nothing more can be hidden: they stay so when more is hidden.
SELECT cell, need
FROM (
    SELECT cell, need FROM settled
    UNION ALL
    SELECT open_needs.cell, open_needs.need
    FROM open_needs AS open_needs
    LEFT JOIN (SELECT DISTINCT cell FROM cubes WHERE fresh > 0) AS unsettled ON open_needs.cell = unsettled.cell
    WHERE unsettled.cell IS NULL
) AS both_needs
