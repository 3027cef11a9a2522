-- The worst conclusion about a sensitive value by an attacker who knows the classes and k basic implications ("if Ann
-- has flu, then Bob or Carl has it"). The table is (c,k)-safe if its probability is below c. The worst implications all
-- conclude the same value of one person from values of others. For each number of values that are excluded within a
-- class, the statement returns the classes where that is least likely; Python finds from these how the values are best
-- spread over classes.
-- cite: Martin, Kifer, Machanavajjhala, Gehrke and Halpern 2007
-- param: atoms integer >= 1: one more than the most implications
-- measures: the largest probability of a sensitive value, for 0, 1, … implications
-- needs: sensitive
WITH ranked AS (
    SELECT
        class_id,
        records,
        ROW_NUMBER() OVER (PARTITION BY class_id ORDER BY records DESC, value) AS place
    FROM class_values
),
-- So many records of a class have one of its `size` most frequent values.
tops AS (
    SELECT
        class_id,
        place AS size,
        CAST(SUM(records) OVER (PARTITION BY class_id ORDER BY place) AS DOUBLE PRECISION) AS excluded
    FROM ranked
    WHERE place <= :atoms
),
sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records, MAX(records) AS most
    FROM class_values
    GROUP BY class_id
),
-- The chance that a person has none of its excluded values, after `place` others had none of theirs.
factors AS (
    SELECT
        sizes.class_id,
        sizes.records,
        sizes.most,
        p.atoms,
        p.number,
        GREATEST(sizes.records - p.place - COALESCE(tops.excluded, sizes.records), 0)
            / (sizes.records - p.place) AS factor
    FROM sizes
    JOIN partitions AS p ON p.persons <= sizes.records
    LEFT JOIN tops ON tops.class_id = sizes.class_id AND tops.size = p.size
),
products AS (
    SELECT
        class_id,
        records,
        most,
        atoms,
        CASE
            WHEN MIN(factor) <= 0 THEN CAST(0 AS DOUBLE PRECISION)
            ELSE EXP(SUM(LN(CASE WHEN factor <= 0 THEN 1 ELSE factor END)))
        END AS chance
    FROM factors
    GROUP BY class_id, records, most, atoms, number
),
least AS (
    SELECT class_id, atoms, MIN(chance) AS chance, MIN(chance) * records / most AS odds
    FROM products
    GROUP BY class_id, atoms, records, most
),
chosen AS (
    SELECT
        class_id,
        atoms,
        chance,
        odds,
        ROW_NUMBER() OVER (PARTITION BY atoms ORDER BY chance, class_id) AS by_chance,
        ROW_NUMBER() OVER (PARTITION BY atoms ORDER BY odds, class_id) AS by_odds
    FROM least
)
SELECT class_id, atoms, chance, odds
FROM chosen
WHERE by_chance <= :atoms OR by_odds <= :atoms
ORDER BY atoms, class_id
