-- Freeform attacks: any column may hold sensitive values and identifying ones. For each sensitive value s and each
-- combination X of the non-sensitive values that stand beside it in a record, s is inferred from X with confidence
-- h at most. A class here is one combination with one sensitive value.
-- A NULL is none of the sensitive values, and counts among the records that do not have them: list null as a
-- sensitive value where it may stand for one.
-- cite: Wang, Xu, Fu and Wong 2009
-- param: h number > 0 <= 1: largest confidence
-- param: sensitive_values column_map: column to the list of its sensitive values
-- measures: confidence of inferring the value from the combination; worse when larger
-- needs: combinations
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT class_id, CAST(matching AS DOUBLE PRECISION) / records AS measured FROM combinations
) AS confidence
WHERE measured > :h + 1e-12
