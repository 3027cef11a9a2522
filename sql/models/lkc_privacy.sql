-- Whoever knows up to l items of a person finds at least k persons who have all of them, and at most a share c of these
-- has any one guarded value in the sensitive column. That column says one thing of a person, the same in all rows, and
-- NULL is refused in it.
-- An item of a sequence is a place at a time, so that the items that are known are a part of a journey in its order.
-- cite: Mohammed, Fung, Hung and Lee 2009; Fung, Cao, Desai and Xu 2009
-- param: l integer >= 1: most items of a person that an attacker knows
-- param: k integer >= 2: fewest persons who share the items
-- param: c number > 0 <= 1: largest share of a guarded value among the persons with the items
-- param: guarded list default all: the sensitive values to limit
-- measures: largest share of a guarded value; worse when larger
-- needs: items, sensitive
-- classes: itemsets(l)
-- shapes: set, sequence
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT s.class_id, s.records, CAST(COALESCE(v.records, 0) AS DOUBLE PRECISION) / s.records AS measured
    FROM itemsets AS s
    LEFT JOIN (SELECT class_id, MAX(records) AS records FROM itemset_values GROUP BY class_id) AS v
        ON v.class_id = s.class_id
) AS shares
WHERE records < :k OR measured > :c + 1e-12
