-- Discernibility without suppression: the sum of the squared sizes of all classes of the generalized table.
-- cite: LeFevre, DeWitt and Ramakrishnan 2006
-- measures: pairs of records that cannot be told apart; worse when larger
-- monotone: yes
-- traits: levels
SELECT SUM(CAST(records AS DOUBLE PRECISION) * records) AS loss FROM recoded_classes
