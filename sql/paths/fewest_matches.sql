-- How many persons are found among so many at worst, by the visits that fewest persons share.
SELECT matches, COUNT(*) AS persons
FROM (SELECT person, MIN(matches) AS matches FROM known_matches GROUP BY person) AS fewest
GROUP BY matches
