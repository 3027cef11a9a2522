-- What is believed of persons who may be any record of some units, each with its own shares of values. A unit is a set of
-- records that an attacker cannot tell apart: a class of a release, or the persons with the same quasi-identifiers.
-- cite: Wong, Fu, Wang and Pei 2007
-- measures: belief, that the persons of a group have a value
-- needs: requirement, sensitive
-- makes: beliefs
SELECT s.group_id, s.value, s.weight / w.records AS share, s.weight / w.records AS belief
FROM (
    SELECT t.group_id, v.value, SUM(u.records * v.share) AS weight
    FROM target_units AS t
    JOIN units AS u ON u.unit = t.unit
    JOIN unit_shares AS v ON v.unit = t.unit
    GROUP BY t.group_id, v.value
) AS s
JOIN (
    SELECT t.group_id, CAST(SUM(u.records) AS DOUBLE PRECISION) AS records
    FROM target_units AS t
    JOIN units AS u ON u.unit = t.unit
    GROUP BY t.group_id
) AS w ON w.group_id = s.group_id
