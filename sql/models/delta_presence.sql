-- An attacker cannot tell whether a person of the population is in the release: in every class of the population,
-- generalized in the same way, the share that was released lies between delta_min and delta_max. A released class
-- without any record of the population breaks it, because the table is then not the population. With delta_min above 0
-- a search suppresses no record: the class that it took away would have a share of 0.
-- cite: Nergiz, Atzori and Clifton 2007
-- param: delta_min number >= 0 <= 1: smallest share of a class that is released
-- param: delta_max number >= 0 <= 1: largest share of a class that is released
-- measures: share of the population class that is released; worse when larger
-- needs: population
-- monotone: yes; not under record suppression
SELECT class_id, measured
FROM (
    SELECT
        class_id,
        CASE
            WHEN population = 0 THEN CAST('Infinity' AS DOUBLE PRECISION)
            ELSE CAST(records AS DOUBLE PRECISION) / population
        END AS measured
    FROM class_population
) AS presence
WHERE measured < :delta_min - 1e-12 OR measured > :delta_max + 1e-12
