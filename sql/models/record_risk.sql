-- At most the share `share` of the released records has a risk above `risk`. The risk of a record is 1 divided by the
-- number of records in its class. Where more are at risk, all of their classes break the model. With a share of 0 it is
-- k-anonymity with k = 1 / risk.
-- cite: El Emam 2013; Prasser and Kohlmayer 2015 (ARX)
-- param: risk number > 0 <= 1: a record with more risk is at risk
-- param: share number >= 0 <= 1 default 0: largest share of records at risk
-- measures: share of all records that are at risk, for a class of such records; 0 for others; worse when larger
-- needs: whole_table
-- shapes: rows, entity
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT
        class_id,
        CASE
            WHEN records * CAST(:risk AS DOUBLE PRECISION) < 1 - 1e-12 THEN
                CAST(
                    SUM(CASE WHEN records * CAST(:risk AS DOUBLE PRECISION) < 1 - 1e-12 THEN records ELSE 0 END)
                    OVER () AS DOUBLE PRECISION
                ) / CAST(SUM(records) OVER () AS DOUBLE PRECISION)
            ELSE 0
        END AS measured
    FROM classes
) AS shares
WHERE measured > :share + 1e-12
