-- Every class is within t of some natural superset of itself that holds at least n records. Supersets are the
-- classes above it in the generalization lattice, so that a large crowd of similar people takes the place of the
-- whole table. A class with n records is its own superset.
-- NULL is a value here: a missing value tells something, and its share is compared like any other. The value behind
-- a NULL is not protected; see the diversity models for unknown values.
-- cite: Li, Li and Venkatasubramanian 2010
-- param: n integer >= 1: fewest records of the superset
-- param: t number >= 0 <= 1: largest distance
-- measures: distance to the nearest superset of n records; worse when larger
-- needs: sensitive, supersets
-- monotone: no
WITH sizes AS (
    SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM class_values GROUP BY class_id
),
weights AS (
    SELECT superset_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records
    FROM superset_values
    GROUP BY superset_id
),
distances AS (
    SELECT
        l.class_id,
        l.superset_id,
        SUM(GREATEST(v.records / s.records - u.records / w.records, 0)) AS distance
    FROM class_supersets AS l
    JOIN superset_sizes AS z ON z.superset_id = l.superset_id AND z.records >= :n
    JOIN weights AS w ON w.superset_id = l.superset_id
    JOIN sizes AS s ON s.class_id = l.class_id
    JOIN class_values AS v ON v.class_id = l.class_id
    JOIN superset_values AS u ON u.superset_id = l.superset_id AND u.value = v.value
    GROUP BY l.class_id, l.superset_id
)
SELECT class_id, measured
FROM (
    SELECT
        s.class_id,
        COALESCE(MIN(d.distance), CAST('Infinity' AS DOUBLE PRECISION)) AS measured
    FROM sizes AS s
    LEFT JOIN distances AS d ON d.class_id = s.class_id
    GROUP BY s.class_id
) AS nearest
WHERE measured > :t + 1e-9
