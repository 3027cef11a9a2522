-- Every row takes the place of another one of its group, all arrangements being equally likely.
-- cite: Zhang, Koudas, Srivastava and Yu 2007, Aggregate query answering on anonymized tables
-- drawn(row_id, stratum, key, draw, second): two draws for each row: its place, and whose place it takes.
WITH from_place AS (
    SELECT row_id, stratum, ROW_NUMBER() OVER (PARTITION BY stratum ORDER BY draw, key) AS place FROM drawn
),
to_place AS (
    SELECT row_id, stratum, ROW_NUMBER() OVER (PARTITION BY stratum ORDER BY second, key) AS place FROM drawn
)
SELECT f.row_id, t.row_id AS partner
FROM from_place AS f
JOIN to_place AS t ON t.stratum = f.stratum AND t.place = f.place
