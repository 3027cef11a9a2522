-- The group of each person: those that were made, and one for whoever is left.
SELECT o.person, COALESCE(g.group_id, :rest) AS group_id
FROM person_order AS o
LEFT JOIN grouped AS g ON g.place = o.place
