-- Whoever knows up to p public items of a person finds at least k persons who have all of them, and at most a share h
-- of these has any one private item. Items are public unless they are listed as private. A set that breaks it is
-- called a mole. With h below the share of all persons who have a private item, nothing but suppression of that item
-- helps. It says nothing about persons who are found by a private item that the attacker knows.
-- cite: Xu, Wang, Fu and Yu 2008
-- param: h number > 0 <= 1: largest share of a private item among the persons with the public items
-- param: k integer >= 2: fewest persons who share the public items
-- param: p integer >= 1: most public items of a person that an attacker knows
-- param: private list: the private items
-- measures: largest share of a private item; worse when larger
-- needs: items, private_items
-- classes: itemsets(p)
-- shapes: set
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT s.class_id, s.records, CAST(COALESCE(v.records, 0) AS DOUBLE PRECISION) / s.records AS measured
    FROM itemsets AS s
    LEFT JOIN (SELECT class_id, MAX(records) AS records FROM itemset_values GROUP BY class_id) AS v
        ON v.class_id = s.class_id
) AS shares
WHERE records < :k OR measured > :h + 1e-12
