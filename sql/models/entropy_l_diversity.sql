-- The entropy of the sensitive values in every class is at least ln(l): they are as hard to tell apart as l
-- equally frequent values.
-- cite: Machanavajjhala et al. 2006
-- param: l number > 1: the class is at least as mixed as this number of equally frequent values
-- measures: exp(entropy) of the sensitive values in the class; worse when smaller
-- needs: sensitive
-- monotone: yes; not under record suppression
-- excess: LN(:l) - LN(measured), at most LN(:l)
SELECT class_id, measured
FROM (
    SELECT
        class_id,
        EXP(
            LN(CAST(SUM(records) AS DOUBLE PRECISION))
            - SUM(records * LN(CAST(records AS DOUBLE PRECISION))) / CAST(SUM(records) AS DOUBLE PRECISION)
        ) AS measured
    FROM class_values
    GROUP BY class_id
) AS diversity
WHERE measured < :l - 1e-9
