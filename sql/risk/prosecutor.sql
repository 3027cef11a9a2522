-- The risk that an attacker who knows that a person is in the table finds their record: 1 divided by the number of
-- records in the class.
-- cite: El Emam 2013, Guide to the De-Identification of Personal Health Information
-- param: threshold number > 0 <= 1 default 0.2: a record is at risk if its own risk is larger
-- measures: records_at_risk, their share; highest, the risk of the record that is least hidden; average, the share
--   of records that is expected to be found if all are sought
SELECT
    CAST(SUM(CASE WHEN records * CAST(:threshold AS DOUBLE PRECISION) < 1 - 1e-12 THEN records ELSE 0 END)
        AS DOUBLE PRECISION) / SUM(records) AS records_at_risk,
    CAST(1 AS DOUBLE PRECISION) / MIN(records) AS highest,
    CAST(COUNT(*) AS DOUBLE PRECISION) / SUM(records) AS average
FROM classes
