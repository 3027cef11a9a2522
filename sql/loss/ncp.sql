-- Normalized certainty penalty, the generalized loss metric: each value costs (leaves below it - 1) / (leaves of the
-- attribute - 1), a suppressed value 1. Mean over the records, then weighted mean over the attributes.
-- cite: Iyengar 2002; Xu et al. 2006
-- measures: mean share of the domain that a released value leaves open, 0 to 1; worse when larger
-- monotone: yes; not with suppression
SELECT SUM(weight * loss) / SUM(weight) AS loss
FROM (
    SELECT
        attribute,
        MAX(weight) AS weight,
        SUM(records * CASE
            WHEN kept = 0 THEN 1
            WHEN domain = 1 THEN 0
            ELSE (leaves - 1) / CAST(domain - 1 AS DOUBLE PRECISION)
        END) / CAST(SUM(records) AS DOUBLE PRECISION) AS loss
    FROM recoded_values
    GROUP BY attribute
) AS by_attribute
