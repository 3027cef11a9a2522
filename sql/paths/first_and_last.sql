-- What tells a person from others to somebody who knows where and when their journey begins and ends, such as the trip
-- between home and work.
SELECT
    v.person,
    CAST(MIN(CASE WHEN v.visit = 1 THEN v.item END) AS TEXT) || ','
    || CAST(MIN(CASE WHEN v.visit = s.visits THEN v.item END) AS TEXT) AS signature
FROM visit_items AS v
JOIN (SELECT person, MAX(visit) AS visits FROM visit_items GROUP BY person) AS s ON s.person = v.person
GROUP BY v.person
