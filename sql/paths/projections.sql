-- What each adversary knows of each person: the places of the adversary that the person visited, in the order of time.
-- A place is written as its number between two commas, so that one text is part of another only where its places are.
-- cite: Terrovitis and Mamoulis 2008, Privacy preservation in the publication of trajectories
SELECT o.adversary, v.person, STRING_AGG(',' || CAST(v.place AS TEXT) || ',', '' ORDER BY v.visit) AS projection
FROM visits AS v
JOIN owners AS o ON o.place = v.place
GROUP BY o.adversary, v.person
