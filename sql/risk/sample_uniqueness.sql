-- The share of records that are alone in their class.
-- cite: Bethlehem, Keller and Pannekoek 1990
-- measures: uniques, records that are alone in their class; share, of all records
SELECT
    CAST(SUM(CASE WHEN records = 1 THEN 1 ELSE 0 END) AS BIGINT) AS uniques,
    CAST(SUM(CASE WHEN records = 1 THEN 1 ELSE 0 END) AS DOUBLE PRECISION) / SUM(records) AS share
FROM classes
