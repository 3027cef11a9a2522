-- Whoever has a list of persons links it with the table by a model that weighs the columns (Fellegi and Sunter): an
-- agreement on a rare value tells more than one on sex. Learned and scored by Splink, in a DuckDB of its own, from the
-- combinations of values that there are. Persons whose best match is shared by several records are one of these.
-- k-anonymity with k of 2 or more withstands it.
-- cite: Fellegi and Sunter 1969; Linacre, Lindsay, Manassis, Slade, Hepworth, Kennedy and Bond 2022
-- param: certainty number > 0 <= 1 default 0.9: a person is broken if its record is found with so much confidence
-- measures: confidence, the probability of the best match, divided by the records that match as well
-- needs: targets, splink
WITH best AS (SELECT group_id, MAX(probability) AS probability FROM matches GROUP BY group_id),
found AS (
    SELECT m.group_id, MAX(m.probability) AS probability, SUM(c.records) AS records
    FROM matches AS m
    JOIN best AS b ON b.group_id = m.group_id
    JOIN classes AS c ON c.class_id = m.class_id
    WHERE m.probability >= b.probability - 1e-12
    GROUP BY m.group_id
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-9 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT t.persons, COALESCE(f.probability / GREATEST(f.records, t.persons), 0) AS confidence
    FROM targets AS t
    LEFT JOIN found AS f ON f.group_id = t.group_id
) AS linked
