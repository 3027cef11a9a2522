-- What tells a person from others to somebody who knows the two places where they are most often, and no time; places
-- that are visited as often follow their numbers.
SELECT person, STRING_AGG(CAST(place AS TEXT), ',' ORDER BY rank_of_place) AS signature
FROM (
    SELECT
        person,
        place,
        ROW_NUMBER() OVER (PARTITION BY person ORDER BY COUNT(*) DESC, place) AS rank_of_place
    FROM visit_items
    GROUP BY person, place
) AS ranked
WHERE rank_of_place <= 2
GROUP BY person
