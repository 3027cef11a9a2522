-- Generated hospital admissions: one row a patient, nobody real. Deterministic, so that the demo always shows the same.
CREATE OR REPLACE MACRO draw(i, seed) AS
    (md5_number_lower(CAST(i AS TEXT) || '/' || CAST(seed AS TEXT)) % 1000003) / 1000003.0;
CREATE OR REPLACE TABLE patients AS
WITH drawn AS (
    SELECT
        i,
        CAST(18 + floor(77 * draw(i, 1) ** 0.9) AS INTEGER) AS age,
        [10115, 10117, 10119, 20095, 20097, 20099, 50667, 50668, 80331, 80333][1 + CAST(floor(10 * draw(i, 2) ** 1.5) AS INT)]
            AS zip,
        CASE WHEN draw(i, 3) < 0.52 THEN 'female' ELSE 'male' END AS sex,
        draw(i, 5) AS illness
    FROM range($rows) AS t(i)
)
SELECT
    'P' || lpad(CAST(i AS TEXT), 6, '0') AS patient_id,
    ['Alex', 'Chris', 'Kim', 'Robin', 'Sam', 'Toni'][1 + i % 6] || ' ' || chr(CAST(65 + i % 26 AS INT)) || '.' AS name,
    age,
    CAST(zip AS TEXT) AS zip,
    sex,
    DATE '2025-01-01' + CAST(floor(365 * draw(i, 4)) AS INTEGER) AS admitted,
    CASE
        WHEN illness < 0.25 THEN 'influenza'
        WHEN illness < 0.42 THEN 'hypertension'
        WHEN illness < 0.56 THEN CASE WHEN age > 45 THEN 'diabetes' ELSE 'migraine' END
        WHEN illness < 0.68 THEN 'asthma'
        WHEN illness < 0.78 THEN 'depression'
        WHEN illness < 0.87 THEN CASE WHEN age > 55 THEN 'cancer' ELSE 'appendicitis' END
        WHEN illness < 0.95 THEN 'hepatitis'
        ELSE 'HIV'
    END AS disease
FROM drawn;
