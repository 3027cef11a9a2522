-- Whoever knows the values of any m of the quasi-identifiers of a person finds at least k records that have them all. An
-- attacker who knows more columns may find fewer, down to one: it asks less than `k_anonymity`, as offices do that count
-- combinations of two or three columns. With a person key it counts persons.
-- cite: Hundepool et al., mu-Argus (minimum unsafe combinations); Fung, Wang, Chen and Yu 2010, 5.1.2
-- param: k integer >= 2: fewest records that share the values
-- param: m integer >= 1: quasi-identifiers that an attacker knows at once
-- measures: records with the values; worse when smaller
-- classes: combinations(m)
-- monotone: yes, also under record suppression
SELECT class_id, records AS measured FROM classes WHERE records < :k
