-- The attacker knows the requirement, and that nothing is generalized more than it must be. They conclude that the next
-- finer table broke it: some group of persons, whose size they know from a list of everybody, held more of a guarded
-- value than was allowed. Where one group alone can have done so, its persons have that value. Requirements that do not look
-- at sensitive values, such as k-anonymity, give no such hint. For l-diversity, t-closeness and (k,e)-anonymity all ways
-- to place the values of a class are looked at, and the surest value of each person counts. The statement gives the
-- ways in which classes are put together from finer groups; how likely a value is in each of them, given that some
-- group broke the bound, is found from these.
-- Of algorithms that do not search for levels the worlds are looked at that the algorithm turns into the release:
-- anatomy: where blocks of close rows were cut, and where they could not be. With close: false, and for k_e_grouping and
-- slices of the sensitive column alone, groups do not depend on quasi-identifiers, and what is drawn gives every way to
-- place the values of a group the same probability: the attack tells what attribute_linkage does, and no more.
-- personalized: the values and guarding nodes for which a class shows its nodes. Every value and every node that may be
-- named are equally likely at first; what the search for levels tells is left out.
-- m_invariance: the values for which persons, in the order of the curve, make these classes; of a first release, or of
-- an earlier one and the next, whose persons are given. Values do not change between them.
-- What has too many worlds is not judged, and said.
-- cite: Wong, Fu, Wang and Pei 2007; Fung, Wang, Chen and Yu 2010
-- param: certainty number > 0 <= 1 default 1: a person is broken if they have the value with at least this confidence
-- measures: confidence, that a person has the guarded value, or the value that is most likely
-- no_guess: it says how likely a value is in all worlds that fit the algorithm, of persons who are in one of them
-- needs: requirement, sensitive
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
