-- The loss metric with ARX's geometric aggregate: the product of (1 + loss) over the m attributes to the power of
-- 1/m, minus 1. One attribute with a high loss weighs less than in the mean.
-- cite: Iyengar 2002; Prasser, Bild and Kuhn 2016
-- measures: geometric mean of the losses of the attributes, 0 to 1; worse when larger
-- monotone: yes; not with suppression
SELECT EXP(SUM(LN(1 + loss)) / COUNT(*)) - 1 AS loss
FROM (
    SELECT
        attribute,
        SUM(records * CASE
            WHEN kept = 0 THEN 1
            WHEN domain = 1 THEN 0
            ELSE (leaves - 1) / CAST(domain - 1 AS DOUBLE PRECISION)
        END) / CAST(SUM(records) AS DOUBLE PRECISION) AS loss
    FROM recoded_values
    GROUP BY attribute
) AS by_attribute
