-- How many persons share what is known of them with so many, themselves included.
SELECT matches, SUM(matches) AS persons
FROM (SELECT signature, COUNT(*) AS matches FROM signatures GROUP BY signature) AS sizes
GROUP BY matches
