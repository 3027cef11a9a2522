-- The attacker has a list of persons, knows that they are in the table, and links them by a model that weighs the
-- columns (Fellegi and Sunter): an agreement on a rare value tells more than one on sex. Splink learns and scores, in a
-- DuckDB of its own, from the combinations of values that occur; for many persons a sample is taken. The odds of each
-- record are compared with those of all others. k-anonymity with k of 2 or more withstands it.
-- cite: Fellegi and Sunter 1969; Linacre, Lindsay, Manassis, Slade, Hepworth, Kennedy and Bond 2022
-- param: certainty number > 0 <= 1 default 0.9: a person is broken if their record is found with at least this confidence
-- measures: confidence, the share of the best record in the odds of all records; 0 where no column agrees
-- no_guess: its links are those of a model that is trained anew for each list; `linkage` counts false links
-- needs: targets, splink
-- traits: slow
WITH scored AS (
    SELECT
        m.group_id,
        c.records,
        LEAST(m.probability, 1 - 1e-12) / (1 - LEAST(m.probability, 1 - 1e-12)) AS odds
    FROM matches AS m
    JOIN classes AS c ON c.class_id = m.class_id
),
best AS (
    SELECT group_id, MAX(odds) AS odds, SUM(odds * records) AS every FROM scored GROUP BY group_id
),
found AS (
    SELECT b.group_id, MAX(b.odds) / MAX(b.every) AS share, SUM(s.records) AS records
    FROM best AS b
    JOIN scored AS s ON s.group_id = b.group_id
    WHERE s.odds >= b.odds * (1 - 1e-9)
    GROUP BY b.group_id
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-9 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT t.persons, COALESCE(f.share * LEAST(1, CAST(f.records AS DOUBLE PRECISION) / t.persons), 0) AS confidence
    FROM targets AS t
    LEFT JOIN found AS f ON f.group_id = t.group_id
) AS linked
