-- The items of persons as rows of persons, for their whole sets.
SELECT person, item AS class_id, 1 AS records FROM items
