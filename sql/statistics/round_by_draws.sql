-- Whole numbers rounded to a multiple of the base: up as often as the number is above the multiple below it. A cell whose
-- draw is not there has no value, unless it needs none.
-- param: base integer >= 2: values become multiples of it
SELECT
    cells.cell,
    CAST(
        CASE
            WHEN cells.value % :base = 0 THEN cells.value
            WHEN draws.draw * :base < cells.value % :base THEN cells.value - cells.value % :base + :base
            WHEN draws.draw IS NOT NULL THEN cells.value - cells.value % :base
        END AS BIGINT
    ) AS value
FROM cells AS cells
LEFT JOIN draws AS draws ON cells.cell = draws.cell
