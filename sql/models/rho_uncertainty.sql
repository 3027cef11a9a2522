-- Whoever knows any items of a person, sensitive ones among them, concludes no further sensitive item with a confidence
-- of rho or more. Items are known in any number unless `antecedent` bounds it. With all items listed as sensitive each of
-- them may be known and may be what an attacker is after (quasi-sensitive items). It protects no person from being found,
-- and an item that a share rho of all persons has breaks it wherever these have anything else in common.
-- cite: Cao, Karras, Raissi and Tan 2010
-- param: rho number > 0 <= 1: the confidence that no conclusion may reach
-- param: sensitive list: the sensitive items
-- param: antecedent integer >= 1 default none: most items of a person that an attacker knows; all if left out
-- measures: largest confidence in a sensitive item; worse when larger
-- needs: items, sensitive_items
-- classes: itemsets(antecedent)
-- shapes: set
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT s.class_id, CAST(COALESCE(v.records, 0) AS DOUBLE PRECISION) / s.records AS measured
    FROM itemsets AS s
    LEFT JOIN (SELECT class_id, MAX(records) AS records FROM itemset_values GROUP BY class_id) AS v
        ON v.class_id = s.class_id
) AS confidences
WHERE measured >= :rho - 1e-12
