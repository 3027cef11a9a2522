-- A clinic that admits patients week by week, nobody real. Deterministic, so that every run prints the same numbers.
CREATE MACRO draw(i, seed) AS (md5_number_lower(CAST(i AS TEXT) || '/' || CAST(seed AS TEXT)) % 1000003) / 1000003.0;
CREATE TABLE admissions AS
SELECT
    i AS patient_id,
    DATE '2025-01-01' + CAST(i // 50 AS INTEGER) AS admitted,
    CAST(18 + floor(70 * draw(i, 1)) AS INTEGER) AS age,
    ['10115', '10117', '20095', '20099'][1 + CAST(floor(4 * draw(i, 2)) AS INT)] AS zip,
    CASE WHEN draw(i, 3) < 0.5 THEN 'female' ELSE 'male' END AS sex,
    ['influenza', 'asthma', 'diabetes', 'cancer', 'HIV'][1 + CAST(floor(5 * draw(i, 4) ** 1.5) AS INT)] AS disease
FROM range(8000) AS t(i);
CREATE TABLE today AS SELECT DATE '2025-03-31' AS day;
CREATE VIEW patients AS FROM admissions WHERE admitted < (SELECT day FROM today);
