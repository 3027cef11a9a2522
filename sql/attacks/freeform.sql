-- The attacker knows some values of a person in any columns, quasi-identifiers or sensitive ones, and infers another
-- value: most records with these values have one value of the attacked column. The attack tries each set of columns.
-- With a model `ff_anonymity`, the attack goes for the values that the model lists, and the attacker does not know
-- them. `ff_anonymity` with h below `certainty` withstands it.
-- cite: Wang, Xu, Fu and Wong 2009
-- param: certainty number > 0 <= 1 default 1: a person is broken if their value is inferred with at least this confidence
-- measures: confidence, with which the most telling set of columns infers the value of a person
-- no_guess: it takes the columns that tell most about the value that a row has, which nobody knows who guesses that
--   value
-- needs: sensitive, freeform
-- traits: slow
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT row_id, persons, CAST(MAX(confidence) AS DOUBLE PRECISION) AS confidence
    FROM inferences
    GROUP BY row_id, persons
) AS best
