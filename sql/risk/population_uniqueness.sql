-- An estimate of how many people are unique in the population, from the sizes of the classes in a sample. The statement
-- returns the sizes. Pitman's and the shifted negative binomial model are fitted to them, Zayatz's estimate is counted
-- from them. Dankar's rule takes Pitman's estimate for samples of up to a tenth, and the smaller of the two others
-- above that.
-- cite: Hoshino 2001; Zayatz 1991; Chen and Keller-McNulty 1998; Dankar et al. 2012
-- measures: pitman, zayatz, snb, dankar: the share of the population that is unique
-- needs: sampling_fraction
SELECT records, COUNT(*) AS classes
FROM classes
GROUP BY records
ORDER BY records
