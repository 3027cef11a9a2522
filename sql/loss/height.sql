-- Height: the sum of the generalization levels of all attributes.
-- cite: Samarati 2001
-- measures: levels; worse when larger
-- monotone: yes
-- traits: levels
SELECT SUM(level) AS loss
FROM (SELECT attribute, MAX(level) AS level FROM recoded_values GROUP BY attribute) AS by_attribute
