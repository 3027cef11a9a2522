-- The items of the persons of one part.
SELECT i.person, i.item
FROM items AS i
INNER JOIN person_parts AS p ON p.person = i.person
WHERE p.part = :part
