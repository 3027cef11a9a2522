-- Every class holds at least l different sensitive values (also called p-sensitivity). It does not stop
-- inference of a value that is much more frequent than the others.
-- A NULL is an unknown value and never counts, unless the policy says `sensitive_nulls: value`.
-- cite: Machanavajjhala et al. 2006; Truta and Vinay 2006
-- param: l integer >= 2: fewest different sensitive values in a class
-- measures: different sensitive values in the class; worse when smaller
-- needs: sensitive
-- shapes: rows, entity
-- monotone: yes, also under record suppression
-- bounds: distinct(l)
SELECT class_id, measured
FROM (SELECT class_id, CAST(SUM(known) AS BIGINT) AS measured FROM class_values GROUP BY class_id) AS diversity
WHERE measured < :l
