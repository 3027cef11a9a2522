-- Nothing is learned by comparing releases: the persons who were in the same classes of all earlier releases, and are
-- now in the same class, are k at least, with l different sensitive values; so are those of a class who were never
-- published before, and those of one past who are no longer there. No intersection or difference of releases, however
-- many, tells a smaller set apart. It assumes that a person's sensitive value stays what it is: where one changes, the
-- set stays as large, with l values as they are now, but that somebody in it changed from one value to another is told.
-- cite: our own; k-anonymity (Sweeney 2002) and distinct l-diversity of the classes of all releases together
-- param: k integer >= 2: fewest persons with the same past and present
-- param: l integer >= 1 default 1: fewest different sensitive values among them
-- measures: persons of a set; worse when smaller
-- monotone: yes; not under record suppression
WITH last_seen AS (
    SELECT p.group_id, p.version, p.class_id
    FROM past AS p
    JOIN (SELECT group_id, MAX(version) AS version FROM past GROUP BY group_id) AS newest
        ON newest.group_id = p.group_id AND newest.version = p.version
),
left_different AS (
    SELECT group_id, COUNT(*) AS different FROM left_values WHERE records > 0 GROUP BY group_id
),
alike AS (
    SELECT group_id, class_id, CAST(SUM(records) AS BIGINT) AS records, COUNT(DISTINCT value) AS different
    FROM moves
    WHERE records > 0
    GROUP BY group_id, class_id
)
SELECT class_id, version, past_class_id, measured
FROM (
    SELECT
        a.class_id,
        s.version,
        s.class_id AS past_class_id,
        a.records AS measured,
        CASE WHEN a.class_id IS NULL THEN COALESCE(d.different, 0) ELSE a.different END AS different
    FROM alike AS a
    LEFT JOIN last_seen AS s ON s.group_id = a.group_id
    LEFT JOIN left_different AS d ON d.group_id = a.group_id
) AS sets
WHERE measured < :k OR different < :l
