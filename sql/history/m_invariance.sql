-- Every class holds at least m rows, all with different sensitive values, and a person who was published before is now
-- in a class with exactly the same set of values as in the latest release that had them. If all releases keep this,
-- each person has one set of values for ever. Exchanging the values of such a set in one way for all of its persons and
-- counterfeits gives data that would have been published in the same way. So each of its m or more values stays
-- possible for each person, even to an attacker who knows who was in which class of every release. A row with a NULL
-- has no value, and no place in a class, unless the policy says `sensitive_nulls: value`.
-- cite: Xiao and Tao 2007
-- param: m integer >= 2: fewest rows, and different values, in a class
-- measures: values of a class, or those that it shares with the earlier class of its persons; worse when smaller
-- needs: sensitive
-- monotone: no
-- traits: signatures
WITH last_seen AS (
    SELECT p.group_id, p.version, p.class_id
    FROM past AS p
    JOIN (SELECT group_id, MAX(version) AS version FROM past GROUP BY group_id) AS newest
        ON newest.group_id = p.group_id AND newest.version = p.version
),
met AS (
    SELECT DISTINCT m.class_id, s.version, s.class_id AS past_class_id
    FROM moves AS m
    JOIN last_seen AS s ON s.group_id = m.group_id
    WHERE m.class_id IS NOT NULL
),
shared AS (
    SELECT t.class_id, t.version, t.past_class_id, COUNT(*) AS n
    FROM met AS t
    JOIN past_values AS w ON w.version = t.version AND w.class_id = t.past_class_id
    JOIN class_values AS v ON v.class_id = t.class_id AND v.value = w.value
    GROUP BY t.class_id, t.version, t.past_class_id
),
sizes AS (
    SELECT
        c.class_id,
        COUNT(v.value) AS n,
        COUNT(v.value) - COUNT(u.value) AS known,
        COALESCE(SUM(v.records), 0) AS records
    FROM classes AS c
    LEFT JOIN class_values AS v ON v.class_id = c.class_id
    LEFT JOIN unknown AS u ON u.value = v.value
    GROUP BY c.class_id
),
past_sizes AS (SELECT version, class_id, COUNT(*) AS n FROM past_values GROUP BY version, class_id)
SELECT class_id, version, past_class_id, measured
FROM (
    -- More rows than values: some value is there twice, or not known.
    SELECT
        class_id,
        CAST(NULL AS BIGINT) AS version,
        CAST(NULL AS BIGINT) AS past_class_id,
        known AS measured,
        CAST(records AS BIGINT) - known AS amiss
    FROM sizes
    UNION ALL
    -- Values that are in one of the two sets alone.
    SELECT
        t.class_id,
        t.version,
        t.past_class_id,
        COALESCE(s.n, 0) AS measured,
        COALESCE(a.n, 0) + COALESCE(b.n, 0) - 2 * COALESCE(s.n, 0) AS amiss
    FROM met AS t
    LEFT JOIN shared AS s
        ON s.class_id = t.class_id AND s.version = t.version AND s.past_class_id = t.past_class_id
    LEFT JOIN sizes AS a ON a.class_id = t.class_id
    LEFT JOIN past_sizes AS b ON b.version = t.version AND b.class_id = t.past_class_id
) AS signatures
WHERE measured < :m OR amiss > 0
