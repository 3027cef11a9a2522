-- The risks of rows where a suppressed cell matches any value: a row is one of those that match it, which are more than the
-- rows of its class. As prosecutor, marketer and sample_uniqueness. Whoever knows a suppressed value finds fewer rows.
-- cite: Templ, Kowarik and Meindl 2015
-- param: threshold number > 0 <= 1 default 0.2: a row is at risk if its own risk is larger
SELECT
    CAST(SUM(CASE WHEN m.records * CAST(:threshold AS DOUBLE PRECISION) < 1 - 1e-12 THEN c.records ELSE 0 END)
        AS DOUBLE PRECISION) / SUM(c.records) AS records_at_risk,
    CAST(1 AS DOUBLE PRECISION) / MIN(m.records) AS highest,
    SUM(CAST(c.records AS DOUBLE PRECISION) / m.records) / SUM(c.records) AS average,
    CAST(SUM(CASE WHEN m.records = 1 THEN c.records ELSE 0 END) AS BIGINT) AS uniques,
    CAST(SUM(CASE WHEN m.records = 1 THEN c.records ELSE 0 END) AS DOUBLE PRECISION) / SUM(c.records) AS share
FROM classes AS c
JOIN matching_classes AS m ON m.class_id = c.class_id
