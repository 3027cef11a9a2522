-- ILoss: each generalized value v costs (leaves below v - 1) / (leaves of the attribute), times the weight of the
-- attribute, added up over all cells. A suppressed record costs as much as the root.
-- cite: Xiao and Tao 2006
-- measures: sum over all cells; worse when larger
-- monotone: yes; not with suppression
SELECT
    SUM(
        weight * records * (CASE WHEN kept = 1 THEN leaves ELSE domain END - 1) / CAST(domain AS DOUBLE PRECISION)
    ) AS loss
FROM recoded_values
