-- The pool without the paths that went into a cluster, and what each path that stays knows of the new pivot.
-- param: k integer >= 1: paths of a cluster
SELECT
    p.person,
    p.span,
    p.center,
    LEAST(p.far, r.distance) AS far,
    CASE WHEN p.person = r.leader THEN 0 ELSE p.open END AS open,
    CASE WHEN r.accepted = 1 AND (p.near IS NULL OR r.distance < p.near) THEN r.leader ELSE p.leader END AS leader,
    CASE WHEN r.accepted = 1 AND (p.near IS NULL OR r.distance < p.near) THEN r.distance ELSE p.near END AS near
FROM pool AS p
LEFT JOIN ranked AS r ON r.person = p.person
WHERE r.person IS NULL OR r.accepted = 0 OR r.place > :k
