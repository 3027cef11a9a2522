-- The entropy of the sensitive values in every class is at least ln(l): they are as hard to tell apart as l
-- equally frequent values.
-- NULLs are unknown values and count as the most frequent value of their class, so that it holds whatever they are,
-- unless the policy says `sensitive_nulls: value`.
-- cite: Machanavajjhala et al. 2006
-- param: l number > 1: the class is at least as mixed as this number of equally frequent values
-- measures: exp(entropy) of the sensitive values in the class; worse when smaller
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes; not under record suppression
-- excess: LN(:l) - LN(measured), at most LN(:l)
-- bounds: entropy(l)
SELECT class_id, measured
FROM (
    SELECT
        class_id,
        EXP(
            LN(records)
            - (nats - most * LN(GREATEST(most, 1)) + (most + unknown) * LN(most + unknown)) / records
        ) AS measured
    FROM (
        SELECT
            class_id,
            CAST(SUM(records) AS DOUBLE PRECISION) AS records,
            SUM(known * records * LN(CAST(records AS DOUBLE PRECISION))) AS nats,
            CAST(MAX(known * records) AS DOUBLE PRECISION) AS most,
            CAST(SUM((1 - known) * records) AS DOUBLE PRECISION) AS unknown
        FROM class_values
        GROUP BY class_id
    ) AS sums
) AS diversity
WHERE measured < :l - 1e-9
