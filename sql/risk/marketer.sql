-- The share of all records that an attacker matches rightly, on average, if they link the whole table to a population
-- and do not care which ones. Without a population table, the table itself counts as the whole population.
-- cite: El Emam 2013, Guide to the De-Identification of Personal Health Information
-- measures: average, the expected share of records that are matched rightly
SELECT SUM(CAST(records AS DOUBLE PRECISION) / GREATEST(records, population)) / SUM(records) AS average
FROM class_population
WHERE records > 0
