-- Classification metric: the share of records that a reader who guesses the most frequent class label of each class
-- gets wrong. A suppressed record counts as wrong.
-- cite: Iyengar 2002
-- measures: share of records that are suppressed or not in the majority; worse when larger
-- needs: class_attribute
-- monotone: no
SELECT SUM(CAST(records - right_ones AS DOUBLE PRECISION)) / CAST(SUM(records) AS DOUBLE PRECISION) AS loss
FROM (
    SELECT class_id, SUM(records) AS records, MAX(CASE WHEN kept = 1 THEN records ELSE 0 END) AS right_ones
    FROM recoded_class_values
    GROUP BY class_id
) AS guesses
