-- The risk that an attacker finds somebody of a known population in the table and can prove it, whoever it is: 1
-- divided by the number of persons of the population who look like the record. A class has at least as many of them as
-- it has records, whatever the population table says.
-- cite: El Emam 2013, Guide to the De-Identification of Personal Health Information
-- param: threshold number > 0 <= 1 default 0.2: a record is at risk if its own risk is larger
-- measures: records_at_risk, their share; highest, the risk of the record that is least hidden; average, the larger
--   of the two ways to find as many as possible; population_unique, the share of records that are the only one of
--   their kind in the population; short_classes, classes with more records than persons in the population table
-- needs: population
SELECT
    CAST(SUM(CASE WHEN crowd * CAST(:threshold AS DOUBLE PRECISION) < 1 - 1e-12 THEN records ELSE 0 END)
        AS DOUBLE PRECISION) / SUM(records) AS records_at_risk,
    CAST(1 AS DOUBLE PRECISION) / MIN(crowd) AS highest,
    GREATEST(
        CAST(COUNT(*) AS DOUBLE PRECISION) / SUM(crowd),
        SUM(CAST(records AS DOUBLE PRECISION) / crowd) / SUM(records)
    ) AS average,
    CAST(SUM(CASE WHEN crowd = 1 THEN records ELSE 0 END) AS DOUBLE PRECISION) / SUM(records) AS population_unique,
    CAST(SUM(CASE WHEN population < records THEN 1 ELSE 0 END) AS BIGINT) AS short_classes
FROM (
    SELECT records, population, GREATEST(records, population) AS crowd
    FROM class_population
    WHERE records > 0
) AS released
