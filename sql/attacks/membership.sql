-- The attacker has a list that holds everybody in the table, and others. They learn who is in the table: of the listed
-- persons that match a class, as many are in the table as the class has records. delta-presence with delta_max below
-- `certainty` withstands it. A person who matches no record is known not to be in the table; that is not counted.
-- cite: Nergiz, Atzori and Clifton 2007
-- param: certainty number > 0 <= 1 default 1: a person is broken if their presence is at least this likely
-- measures: confidence, that a listed person is in the table
-- needs: external
WITH crowds AS (
    SELECT f.class_id, CAST(SUM(t.persons) AS DOUBLE PRECISION) AS persons
    FROM target_classes AS f
    JOIN targets AS t ON t.group_id = f.group_id
    GROUP BY f.class_id
),
present AS (
    SELECT f.group_id, LEAST(SUM(c.records / w.persons), 1) AS chance
    FROM target_classes AS f
    JOIN classes AS c ON c.class_id = f.class_id
    JOIN crowds AS w ON w.class_id = f.class_id
    GROUP BY f.group_id
)
SELECT
    t.persons,
    COALESCE(p.chance, 0) AS confidence,
    CASE WHEN COALESCE(p.chance, 0) >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM targets AS t
LEFT JOIN present AS p ON p.group_id = t.group_id
