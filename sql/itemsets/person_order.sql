-- Persons in an order in which those with the same frequent items are near each other: items by how many persons have
-- them, and sets of these by the alphabet. Who has the same items is ordered by the key, so that it is always the same.
WITH ranked AS (
    SELECT item, ROW_NUMBER() OVER (ORDER BY persons DESC, item) AS place
    FROM (SELECT item, COUNT(*) AS persons FROM items GROUP BY item) AS counted
)
SELECT s.person, ROW_NUMBER() OVER (ORDER BY s.spelt, CAST(p.key AS TEXT)) AS place
FROM (
    SELECT i.person, STRING_AGG(CAST(1000000000 + r.place AS TEXT), ' ' ORDER BY r.place) AS spelt
    FROM items AS i
    INNER JOIN ranked AS r ON r.item = i.item
    GROUP BY i.person
) AS s
INNER JOIN person_numbers AS p ON p.person = s.person
