-- Every published journey is in a group of at least k that are at the same times, never more than delta apart. With
-- delta above 0 this is not k-anonymity: journeys are moved only as far as they must, and who knows where a person was
-- usually finds them by taking the nearest published journey; publishing tries this attack and says how it went. With
-- delta = 0 all of a group are published as one, and nobody is told from the others. It protects where a person was, not
-- sensitive values.
-- cite: Abul, Bonchi and Nanni 2008; Trujillo-Rasua and Domingo-Ferrer 2013
-- param: k integer >= 2: fewest journeys in a group
-- param: delta number >= 0: largest distance of two journeys of a group at any time
-- measures: journeys in a group that are never more than delta apart; worse when smaller
-- needs: positions
-- shapes: sequence
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT
        class_id,
        CASE WHEN gaps <> 0 OR NOT distance <= :delta + 1e-9 * (1 + :delta) THEN 0 ELSE records END AS measured
    FROM path_groups
) AS measured_groups
WHERE measured < :k
