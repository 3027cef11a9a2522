-- The attacker finds the class of a person. If the values of the class differ in name only (all of them are cancers),
-- they know the kind of the person's value. Kinds are the nodes of the attribute's hierarchy on one level. Models that
-- count categories, such as entropy (l,alpha)-diversity, withstand it.
-- cite: Li, Li and Venkatasubramanian 2007
-- param: level integer >= 1 default 1: the level of the hierarchy whose nodes are kinds
-- param: certainty number > 0 <= 1 default 1: a person is broken if this share of their class is of one kind
-- measures: confidence, that a person has a value of the most frequent kind
-- needs: sensitive, taxonomy
-- traits: informed
SELECT
    c.records AS persons,
    LEAST(CAST(MAX(k.records) AS DOUBLE PRECISION) / c.records, 1) AS confidence,
    CASE
        WHEN CAST(MAX(k.records) AS DOUBLE PRECISION) >= :certainty * c.records - 1e-9 THEN 1 ELSE 0
    END AS broken
FROM classes AS c
JOIN (
    SELECT v.class_id, t.node, SUM(v.records) AS records
    FROM class_values AS v
    JOIN taxonomy AS t ON t.value = v.value
    WHERE t.level = :level
    GROUP BY v.class_id, t.node
) AS k ON k.class_id = c.class_id
GROUP BY c.class_id, c.records
