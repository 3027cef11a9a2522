-- Nothing is learned by comparing releases: the persons who were in the same classes of all earlier releases, and are
-- now in the same class, are k at least; so are those of a class who were never published before, and those of one past
-- who are no longer there. Each person then has k - 1 others whose classes are the same in every release, and no
-- intersection or difference of releases, however many, tells them apart. It keeps the promise of k-anonymity over
-- time, and like it says nothing of sensitive values.
-- cite: our own; k-anonymity (Sweeney 2002) of the classes of all releases together
-- param: k integer >= 2: fewest persons with the same past and present
-- measures: persons of a set; worse when smaller
-- monotone: yes; not under record suppression
WITH last_seen AS (
    SELECT p.group_id, p.version, p.class_id
    FROM past AS p
    JOIN (SELECT group_id, MAX(version) AS version FROM past GROUP BY group_id) AS newest
        ON newest.group_id = p.group_id AND newest.version = p.version
)
SELECT class_id, version, past_class_id, measured
FROM (
    SELECT m.class_id, s.version, s.class_id AS past_class_id, m.records AS measured
    FROM (
        SELECT group_id, class_id, CAST(SUM(records) AS BIGINT) AS records
        FROM moves
        GROUP BY group_id, class_id
    ) AS m
    LEFT JOIN last_seen AS s ON s.group_id = m.group_id
    WHERE m.records > 0
) AS alike
WHERE measured < :k
