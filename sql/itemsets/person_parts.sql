-- Persons in parts of about as many each, those with like items together.
SELECT person, NTILE(:parts) OVER (ORDER BY place) AS part FROM person_order
