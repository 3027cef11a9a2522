-- Given any earlier release and the new one, l sensitive values remain possible for every person. Two releases split
-- their persons into sets: persons of an earlier class who are now in the same class, persons of a new class who were
-- not in the earlier release, and persons of an earlier class who are not in the new one. Each set that is not empty
-- holds at least l different values; for those who left, these are the values of their class less the present ones of
-- those who stayed. Persons of one set are in the same classes of both releases. So any exchange of values among them
-- gives data that would have been published in the same way: even an attacker who knows the classes of everybody cannot
-- tell whose value is whose. The promise is about pairs of releases: three together may tell more, unless m_invariance,
-- or stable_partition with the same l, holds too. A value that changed in the meantime counts as it is now. The new
-- release by itself is l-diverse. A NULL is an unknown value and never counts, unless the policy says `sensitive_nulls:
-- value`.
-- cite: Byun, Sohn, Bertino and Li 2006; for those who left: our own
-- param: l integer >= 2: fewest values that must remain possible for a person
-- measures: values that remain possible for the persons of a set; worse when smaller
-- needs: sensitive
-- monotone: yes; not under record suppression
-- traits: wait
WITH moved AS (
    SELECT p.version, p.class_id AS past_class_id, m.class_id, m.value, SUM(m.records) AS records
    FROM moves AS m
    JOIN past AS p ON p.group_id = m.group_id
    WHERE m.records > 0
    GROUP BY p.version, p.class_id, m.class_id, m.value
),
present AS (
    SELECT class_id, value, SUM(records) AS records
    FROM moves
    WHERE class_id IS NOT NULL AND records > 0
    GROUP BY class_id, value
),
diversity AS (
    SELECT p.class_id, COUNT(*) - COUNT(x.value) AS n, COUNT(*) AS every
    FROM present AS p
    LEFT JOIN unknown AS x ON x.value = p.value
    GROUP BY p.class_id
),
-- Values of a new class that only persons hold who were in the earlier release: no newcomer has them.
used_up AS (
    SELECT k.version, k.class_id, COUNT(*) - COUNT(x.value) AS n, COUNT(*) AS every
    FROM (
        SELECT version, class_id, value, SUM(records) AS records
        FROM moved
        WHERE class_id IS NOT NULL
        GROUP BY version, class_id, value
    ) AS k
    JOIN present AS p ON p.class_id = k.class_id AND p.value = k.value
    LEFT JOIN unknown AS x ON x.value = k.value
    WHERE k.records >= p.records
    GROUP BY k.version, k.class_id
),
stayed AS (
    SELECT version, past_class_id, value, SUM(records) AS records
    FROM moved
    WHERE class_id IS NOT NULL
    GROUP BY version, past_class_id, value
),
left_over AS (
    SELECT w.version, w.class_id, COUNT(*) AS n
    FROM past_values AS w
    LEFT JOIN stayed AS s ON s.version = w.version AND s.past_class_id = w.class_id AND s.value = w.value
    WHERE w.records > COALESCE(s.records, 0) AND w.value NOT IN (SELECT value FROM unknown)
    GROUP BY w.version, w.class_id
)
SELECT class_id, version, past_class_id, measured
FROM (
    SELECT m.class_id, m.version, m.past_class_id, COUNT(*) - COUNT(x.value) AS measured
    FROM moved AS m
    LEFT JOIN unknown AS x ON x.value = m.value
    WHERE m.class_id IS NOT NULL
    GROUP BY m.class_id, m.version, m.past_class_id
    UNION ALL
    SELECT d.class_id, r.version, CAST(NULL AS BIGINT) AS past_class_id, d.n - COALESCE(u.n, 0) AS measured
    FROM diversity AS d
    CROSS JOIN (SELECT DISTINCT version FROM past_classes) AS r
    LEFT JOIN used_up AS u ON u.version = r.version AND u.class_id = d.class_id
    WHERE d.every > COALESCE(u.every, 0)
    UNION ALL
    SELECT CAST(NULL AS BIGINT) AS class_id, m.version, m.past_class_id, COALESCE(o.n, 0) AS measured
    FROM moved AS m
    LEFT JOIN left_over AS o ON o.version = m.version AND o.class_id = m.past_class_id
    WHERE m.class_id IS NULL
    UNION ALL
    SELECT
        c.class_id,
        CAST(NULL AS BIGINT) AS version,
        CAST(NULL AS BIGINT) AS past_class_id,
        COUNT(v.value) AS measured
    FROM classes AS c
    LEFT JOIN class_values AS v ON v.class_id = c.class_id AND v.value NOT IN (SELECT value FROM unknown)
    GROUP BY c.class_id
) AS remaining
WHERE measured < :l
