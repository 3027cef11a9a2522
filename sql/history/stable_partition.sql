-- An attacker learns nothing by comparing releases. The persons who were in the same classes of all earlier releases,
-- and are now in the same class, are at least k, with at least l different sensitive values. The same holds for the
-- persons of a class who were never published before, and for the persons of one past who are no longer there. No
-- intersection or difference of releases, however many, tells a smaller set apart. The model assumes that a person's
-- sensitive value stays the same. Where a value changes, the set stays as large, with l values as they are now, but the
-- releases show that somebody in it changed from one value to another. With l above 1, a NULL is an unknown value and
-- never counts, unless the policy says `sensitive_nulls: value`.
-- cite: our own; k-anonymity (Sweeney 2002) and distinct l-diversity of the classes of all releases together
-- param: k integer >= 2: fewest persons with the same past and present
-- param: l integer >= 1 default 1: fewest different sensitive values among them
-- measures: persons of a set; worse when smaller
-- monotone: yes; not under record suppression
-- traits: wait, cells
WITH last_seen AS (
    SELECT p.group_id, p.version, p.class_id
    FROM past AS p
    JOIN (SELECT group_id, MAX(version) AS version FROM past GROUP BY group_id) AS newest
        ON newest.group_id = p.group_id AND newest.version = p.version
),
left_different AS (
    SELECT v.group_id, COUNT(*) AS different, COUNT(*) - COUNT(x.value) AS known
    FROM left_values AS v
    LEFT JOIN unknown AS x ON x.value = v.value
    WHERE v.records > 0
    GROUP BY v.group_id
),
alike AS (
    SELECT
        m.group_id,
        m.class_id,
        CAST(SUM(m.records) AS BIGINT) AS records,
        COUNT(DISTINCT m.value) AS different,
        COUNT(DISTINCT CASE WHEN x.value IS NULL THEN m.value END) AS known
    FROM moves AS m
    LEFT JOIN unknown AS x ON x.value = m.value
    WHERE m.records > 0
    GROUP BY m.group_id, m.class_id
)
SELECT class_id, version, past_class_id, measured
FROM (
    SELECT
        a.class_id,
        s.version,
        s.class_id AS past_class_id,
        a.records AS measured,
        CASE WHEN a.class_id IS NULL THEN COALESCE(d.different, 0) ELSE a.different END AS different,
        CASE WHEN a.class_id IS NULL THEN COALESCE(d.known, 0) ELSE a.known END AS known
    FROM alike AS a
    LEFT JOIN last_seen AS s ON s.group_id = a.group_id
    LEFT JOIN left_different AS d ON d.group_id = a.group_id
) AS sets
WHERE measured < :k OR different < :l OR (:l > 1 AND known < :l)
