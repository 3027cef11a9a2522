-- The attacker has a list of persons with their quasi-identifiers and joins it with the table: the record of a person is
-- one of those that fit. Where more listed persons than records fit a class, it is any of theirs. k-anonymity with k of 2 or
-- more withstands it, but for a release whose suppressed cells match any value.
-- cite: Sweeney 2002; Fung, Wang, Chen and Yu 2010
-- param: certainty number > 0 <= 1 default 1: a person is broken if their record is found with at least this confidence
-- param: present integer >= 0 <= 1 default 0: 1 where all listed persons are known to have a record in the table: then a
--   record that fits others too is still the one of a person whom no other record fits
-- measures: confidence, that a record is the one of a listed person; 0 where none fits
-- needs: targets
-- traits: singles_out
WITH crowds AS (
    SELECT f.class_id, SUM(t.persons) AS persons
    FROM target_classes AS f
    JOIN targets AS t ON t.group_id = f.group_id
    GROUP BY f.class_id
),
found AS (
    SELECT f.group_id, SUM(c.records) AS records, MIN(w.persons) AS persons
    FROM target_classes AS f
    JOIN classes AS c ON c.class_id = f.class_id
    JOIN crowds AS w ON w.class_id = f.class_id
    GROUP BY f.group_id
)
SELECT persons, confidence, CASE WHEN confidence >= :certainty - 1e-12 THEN 1 ELSE 0 END AS broken
FROM (
    SELECT
        t.persons,
        COALESCE(
            CAST(1 AS DOUBLE PRECISION) / GREATEST(f.records, CASE WHEN :present = 1 THEN 1 ELSE f.persons END), 0
        ) AS confidence
    FROM targets AS t
    LEFT JOIN found AS f ON f.group_id = t.group_id
) AS linked
