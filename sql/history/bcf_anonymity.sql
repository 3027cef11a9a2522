-- The classes of two releases keep k records after the attacker takes out those that a comparison shows not to be the
-- victim's. Rows of a pair of classes (F and C): the victim is in an earlier class and in a new one. Of n1 earlier and
-- n2 new records with a value, only min(n1, n2) can belong to persons who are in both. The forward attack takes n1 -
-- min(n1, n2) out of the earlier class, the cross attack n2 - min(n1, n2) out of the new one, so that both leave the
-- same number. Rows of a class (B): the victim is in a new class and was not in the earlier release. Let G1 records
-- with a value be in the earlier classes that are comparable to it, and G2 in the new classes that are comparable to
-- those: the G1 persons are among these G2, so the backward attack takes G1 - (G2 - n2) of the n2 in the class for old
-- ones. Victims are persons that exist: pairs of classes that nobody is in, and classes without a newcomer, are left
-- out, or publishing the same table again would break the model. The definition assumes that all persons of the earlier
-- release stay; where some left, B takes out more than an attacker can (never more than n2). A class without a class to
-- compare it with keeps all its records; the new release by itself is k-anonymous. Only pairs of releases are compared.
-- NULL is a value here: records are counted, not different values.
-- cite: Fung, Wang, Fu and Pei 2008
-- param: k integer >= 2: fewest records that remain possible for a victim
-- measures: records of a class that remain possible for a victim; worse when smaller
-- needs: sensitive
-- monotone: no
-- traits: raise, wait_last
WITH moved AS (
    SELECT p.version, p.class_id AS past_class_id, m.class_id, SUM(m.records) AS records
    FROM (
        SELECT group_id, class_id, SUM(records) AS records
        FROM moves
        WHERE class_id IS NOT NULL AND records > 0
        GROUP BY group_id, class_id
    ) AS m
    JOIN past AS p ON p.group_id = m.group_id
    GROUP BY p.version, p.class_id, m.class_id
),
-- Earlier classes that are comparable to the same new classes are one hub: where labels come from one cut through each
-- hierarchy, a class has a single hub, and the classes around it need not be paired with one another.
hubs AS (
    SELECT version, past_class_id, MIN(past_class_id) OVER (PARTITION BY version, reached) AS hub
    FROM (
        SELECT version, past_class_id, STRING_AGG(CAST(class_id AS TEXT), ',' ORDER BY class_id) AS reached
        FROM comparable
        GROUP BY version, past_class_id
    ) AS reaches
),
links AS (
    SELECT DISTINCT c.version, c.class_id, h.hub
    FROM comparable AS c
    JOIN hubs AS h ON h.version = c.version AND h.past_class_id = c.past_class_id
),
-- Classes with persons who were not in the earlier release, and that it can be compared with.
renewed AS (
    SELECT l.version, l.class_id, l.hub, l.hubs
    FROM (SELECT version, class_id, MIN(hub) AS hub, COUNT(*) AS hubs FROM links GROUP BY version, class_id) AS l
    JOIN (SELECT class_id, SUM(records) AS records FROM moves WHERE class_id IS NOT NULL GROUP BY class_id) AS n
        ON n.class_id = l.class_id
    LEFT JOIN (SELECT version, class_id, SUM(records) AS records FROM moved GROUP BY version, class_id) AS o
        ON o.version = l.version AND o.class_id = l.class_id
    WHERE n.records > COALESCE(o.records, 0)
),
earlier AS (
    SELECT r.version, r.class_id, w.value, SUM(w.records) AS records
    FROM renewed AS r
    JOIN comparable AS c ON c.version = r.version AND c.class_id = r.class_id
    JOIN past_values AS w ON w.version = c.version AND w.class_id = c.past_class_id
    GROUP BY r.version, r.class_id, w.value
),
around AS (
    SELECT l.version, l.hub, v.value, SUM(v.records) AS records
    FROM links AS l
    JOIN class_values AS v ON v.class_id = l.class_id
    GROUP BY l.version, l.hub, v.value
),
later AS (
    SELECT r.version, r.class_id, a.value, a.records
    FROM renewed AS r
    JOIN around AS a ON a.version = r.version AND a.hub = r.hub
    WHERE r.hubs = 1
    UNION ALL
    SELECT n.version, n.class_id, v.value, SUM(v.records) AS records
    FROM (
        SELECT DISTINCT r.version, r.class_id, b.class_id AS other_id
        FROM renewed AS r
        JOIN links AS a ON a.version = r.version AND a.class_id = r.class_id
        JOIN links AS b ON b.version = a.version AND b.hub = a.hub
        WHERE r.hubs > 1
    ) AS n
    JOIN class_values AS v ON v.class_id = n.other_id
    GROUP BY n.version, n.class_id, v.value
)
SELECT class_id, version, past_class_id, measured
FROM (
    SELECT
        m.class_id,
        m.version,
        m.past_class_id,
        CAST(SUM(LEAST(COALESCE(w.records, 0), COALESCE(v.records, 0))) AS BIGINT) AS measured
    FROM moved AS m
    LEFT JOIN past_values AS w ON w.version = m.version AND w.class_id = m.past_class_id
    LEFT JOIN class_values AS v ON v.class_id = m.class_id AND v.value = w.value
    GROUP BY m.class_id, m.version, m.past_class_id
    UNION ALL
    SELECT
        r.class_id,
        r.version,
        CAST(NULL AS BIGINT) AS past_class_id,
        -- n2 less what is taken out: G2 - G1, but neither below 0 nor above n2.
        CAST(SUM(LEAST(v.records, GREATEST(l.records - COALESCE(e.records, 0), 0))) AS BIGINT) AS measured
    FROM renewed AS r
    JOIN class_values AS v ON v.class_id = r.class_id
    JOIN later AS l ON l.version = r.version AND l.class_id = r.class_id AND l.value = v.value
    LEFT JOIN earlier AS e ON e.version = r.version AND e.class_id = r.class_id AND e.value = v.value
    GROUP BY r.class_id, r.version
    UNION ALL
    SELECT
        c.class_id,
        CAST(NULL AS BIGINT) AS version,
        CAST(NULL AS BIGINT) AS past_class_id,
        CAST(COALESCE(SUM(v.records), 0) AS BIGINT) AS measured
    FROM classes AS c
    LEFT JOIN class_values AS v ON v.class_id = c.class_id
    GROUP BY c.class_id
) AS remaining
WHERE measured < :k
