-- Kullback-Leibler divergence between the joint distribution of the original records and the one that a reader
-- rebuilds from the release by spreading each class evenly over all combinations that it covers. Over the released
-- records; a suppressed record would make it infinite. NULL is one more value that the root covers.
-- cite: Kifer and Gehrke 2006
-- measures: divergence in nats; worse when larger
-- monotone: yes; not with suppression
-- traits: levels
SELECT
    COALESCE(
        SUM(records * LN(CAST(records AS DOUBLE PRECISION) * area / class_records))
        / CAST(SUM(records) AS DOUBLE PRECISION),
        0
    ) AS loss
FROM recoded_tuples
WHERE kept = 1
