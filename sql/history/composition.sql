-- An attacker who knows the class of a person in each release cannot narrow their sensitive value down to fewer than l
-- values: at least l values are left possible by all earlier releases and are also in the new class. A class holds at
-- least l values in any case, which is all that is known of a person who was never published before. Each release may
-- be about a different population: the model draws no conclusion from who else is in a class, or from how often a value
-- occurs. Against an attacker who uses that as well, see incremental_l_diversity and m_invariance. A person who left is
-- as safe as before. A NULL is an unknown value and never counts, unless the policy says `sensitive_nulls: value`.
-- cite: Ganta, Kasiviswanathan and Smith 2008
-- param: l integer >= 2: fewest values that must remain possible for a person
-- measures: values that remain possible for the persons of a set; worse when smaller
-- needs: sensitive
-- monotone: yes; not under record suppression
-- traits: wait
WITH last_seen AS (
    SELECT p.group_id, p.version, p.class_id
    FROM past AS p
    JOIN (SELECT group_id, MAX(version) AS version FROM past GROUP BY group_id) AS newest
        ON newest.group_id = p.group_id AND newest.version = p.version
),
returned AS (
    SELECT DISTINCT group_id, class_id FROM moves WHERE group_id > 0 AND class_id IS NOT NULL
),
possible AS (
    SELECT r.group_id, r.class_id, COUNT(*) AS n
    FROM returned AS r
    JOIN candidates AS c ON c.group_id = r.group_id AND c.value NOT IN (SELECT value FROM unknown)
    JOIN class_values AS v ON v.class_id = r.class_id AND v.value = c.value
    GROUP BY r.group_id, r.class_id
)
SELECT class_id, version, past_class_id, measured
FROM (
    -- Where no value is left, what was published contradicts itself: that counts as nothing left to hide among.
    SELECT r.class_id, s.version, s.class_id AS past_class_id, COALESCE(p.n, 0) AS measured
    FROM returned AS r
    LEFT JOIN possible AS p ON p.group_id = r.group_id AND p.class_id = r.class_id
    LEFT JOIN last_seen AS s ON s.group_id = r.group_id
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
