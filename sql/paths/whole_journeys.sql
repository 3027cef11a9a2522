-- What tells a person from others to somebody who knows the whole journey.
SELECT person, STRING_AGG(CAST(item AS TEXT), ',' ORDER BY item) AS signature FROM items GROUP BY person
