-- With several sensitive attributes: each one is l-diverse also for an attacker who knows the others. Classes are
-- made by the quasi-identifiers together with the other sensitive attributes.
-- A NULL is an unknown value and never counts, unless the policy says `sensitive_nulls: value`; in the other
-- attributes, rows with a NULL are alike.
-- cite: Machanavajjhala et al. 2006
-- param: l integer >= 2: fewest different sensitive values in a class
-- measures: different sensitive values in the class; worse when smaller
-- needs: sensitive
-- classes: other_sensitive
-- monotone: yes, also under record suppression
SELECT class_id, measured
FROM (SELECT class_id, CAST(SUM(known) AS BIGINT) AS measured FROM class_values GROUP BY class_id) AS diversity
WHERE measured < :l
