-- At most the share `share` of the population is estimated to be unique on the quasi-identifiers, by Zayatz's model for
-- records that are drawn one by one with the probability `sampling_fraction`. Where more is, all records that are alone
-- in their class break the model. The estimate is never above the share of uniques in the release. 'sqlanon risk'
-- measures the models of Pitman and of the shifted negative binomial, too, which have no formula to search with.
-- cite: Zayatz 1991; Prasser and Kohlmayer 2015 (ARX)
-- param: share number >= 0 <= 1: largest share of the population that is unique
-- param: sampling_fraction number > 0 <= 1: share of the population that the table holds
-- measures: estimated share of the population that is unique, for a record alone in its class; 0 for others;
--   worse when larger
-- needs: whole_table
-- shapes: rows, entity
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT
        class_id,
        CASE
            WHEN records = 1 THEN
                -- Uniques of the sample, times the chance that one is a unique of the population. The power is taken by
                -- its logarithm, cut off where it is zero in effect: POWER would underflow to an error.
                CAST(SUM(CASE WHEN records = 1 THEN 1 ELSE 0 END) OVER () AS DOUBLE PRECISION)
                * CAST(SUM(CASE WHEN records = 1 THEN 1 ELSE 0 END) OVER () AS DOUBLE PRECISION)
                / SUM(
                    records * EXP(GREATEST((records - 1) * LN(GREATEST(1 - :sampling_fraction, 1e-300)), -600))
                ) OVER ()
                / CAST(SUM(records) OVER () AS DOUBLE PRECISION)
            ELSE 0
        END AS measured
    FROM classes
) AS estimates
WHERE measured > :share + 1e-12
