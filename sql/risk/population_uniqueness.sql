-- How many of the population are the only one of their kind there, estimated from the sizes of the classes in a sample.
-- The statement gives the sizes; Pitman's and the shifted negative binomial model are fitted to them, Zayatz's
-- estimate is counted from them. Dankar's rule takes Pitman's for samples of up to a tenth, and the smaller of the two
-- others above that.
-- cite: Hoshino 2001; Zayatz 1991; Chen and Keller-McNulty 1998; Dankar et al. 2012
-- measures: pitman, zayatz, snb, dankar: the share of the population that is unique
-- needs: sampling_fraction
SELECT records, COUNT(*) AS classes
FROM classes
GROUP BY records
ORDER BY records
