-- How far each set of quasi-identifiers tells records apart. Distinction is the share of records that must stay so that
-- the set is a key; separation is the share of pairs of records that differ on it.
-- cite: Motwani and Xu 2007
-- measures: classes; uniques, records that are alone in their class; distinction; separation
-- needs: subsets
SELECT
    subset,
    COUNT(*) AS classes,
    CAST(SUM(CASE WHEN records = 1 THEN 1 ELSE 0 END) AS BIGINT) AS uniques,
    CAST(COUNT(*) AS DOUBLE PRECISION) / SUM(records) AS distinction,
    1 - SUM(CAST(records AS DOUBLE PRECISION) * (records - 1))
        / NULLIF(CAST(SUM(records) AS DOUBLE PRECISION) * (SUM(records) - 1), 0) AS separation
FROM subset_classes
GROUP BY subset
ORDER BY subset
