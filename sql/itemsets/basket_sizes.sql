-- How many persons have so many items.
SELECT size, COUNT(*) AS persons
FROM (SELECT person, COUNT(*) AS size FROM items GROUP BY person) AS baskets
GROUP BY size
