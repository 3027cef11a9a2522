-- Who of the ordered persons has which private item.
SELECT o.place, v.value AS item
FROM person_order AS o
INNER JOIN owners AS v ON v.person = o.person
