-- Average class size as ARX counts it: all records over the number of released classes, where the suppressed
-- records together are one more class.
-- cite: LeFevre, DeWitt and Ramakrishnan 2006
-- measures: average class size; worse when larger
-- monotone: no, with suppression
SELECT
    SUM(CAST(records AS DOUBLE PRECISION)) / (SUM(kept) + MAX(CASE WHEN kept = 0 THEN 1 ELSE 0 END)) AS loss
FROM recoded_classes
