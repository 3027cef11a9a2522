-- Hidden cells of a table whose needs were not looked at yet.
SELECT needs.cell, needs.need
FROM needs AS needs
INNER JOIN states AS states ON needs.cell = states.cell
LEFT JOIN settled AS settled ON needs.cell = settled.cell AND needs.need = settled.need
WHERE settled.cell IS NULL AND needs.need > 0
