-- Whoever knows the requirement, and that nothing is generalized more than it must be, concludes that the next finer
-- table broke it: some group of persons, whose sizes he knows from a list of all of them, held more of a guarded value
-- than was allowed. Where one group alone can have done so, its persons have that value. Requirements that do not look
-- at sensitive values, such as k-anonymity, give no such hint. The statement gives the ways in which classes are put
-- together from finer groups; how likely a value is in each of them, given that some group broke the bound, is
-- found from these.
-- cite: Wong, Fu, Wang and Pei 2007; Fung, Wang, Chen and Yu 2010
-- param: certainty number > 0 <= 1 default 1: a person is broken if it has the value with so much confidence
-- measures: confidence, that a person has the guarded value
-- needs: minimality, sensitive
SELECT records, matching, sizes, COUNT(*) AS classes
FROM (
    SELECT
        c.class_id,
        c.records,
        COALESCE(v.records, 0) AS matching,
        STRING_AGG(
            CAST(g.persons AS TEXT) || 'x' || CAST(g.groups AS TEXT), ',' ORDER BY g.persons
        ) AS sizes
    FROM classes AS c
    JOIN (
        SELECT class_id, persons, COUNT(*) AS groups FROM finer_groups GROUP BY class_id, persons
    ) AS g ON g.class_id = c.class_id
    LEFT JOIN guarded_values AS v ON v.class_id = c.class_id
    GROUP BY c.class_id, c.records, COALESCE(v.records, 0)
) AS configurations
GROUP BY records, matching, sizes
ORDER BY records, matching, sizes
