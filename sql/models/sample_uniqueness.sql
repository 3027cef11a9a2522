-- At most the share `share` of the released records is alone in its class. Where more are, all of them break the model.
-- cite: Bethlehem, Keller and Pannekoek 1990; Prasser and Kohlmayer 2015 (ARX)
-- param: share number >= 0 <= 1: largest share of records that are unique in the release
-- measures: share of all records that are alone in their class, for such a record; 0 for others; worse when larger
-- needs: whole_table
-- shapes: rows, entity
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT
        class_id,
        CASE
            WHEN records = 1 THEN
                CAST(SUM(CASE WHEN records = 1 THEN 1 ELSE 0 END) OVER () AS DOUBLE PRECISION)
                / CAST(SUM(records) OVER () AS DOUBLE PRECISION)
            ELSE 0
        END AS measured
    FROM classes
) AS uniques
WHERE measured > :share + 1e-12
