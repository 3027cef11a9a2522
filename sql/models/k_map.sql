-- Every released record matches at least k records of a population table that is generalized in the same way.
-- Weaker than k-anonymity: the crowd to hide in is the population, not the release.
-- cite: Sweeney 2001
-- param: k integer >= 2: fewest matching records of the population
-- measures: population records that match the class; worse when smaller
-- needs: population
-- monotone: yes, also under record suppression
SELECT class_id, population AS measured
FROM (SELECT class_id, population FROM class_population WHERE records > 0) AS released
WHERE population < :k
