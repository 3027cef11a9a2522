-- A town and a survey of it, nobody real. Deterministic, so that every run prints the same numbers.
CREATE MACRO draw(i, seed) AS (md5_number_lower(CAST(i AS TEXT) || '/' || CAST(seed AS TEXT)) % 1000003) / 1000003.0;
CREATE TABLE town AS
SELECT
    i AS person,
    i // 3 AS household,
    CAST(18 + floor(70 * draw(i, 1)) AS INTEGER) AS age,
    ['10115', '10117', '20095', '20099'][1 + CAST(floor(4 * draw(i // 3, 2)) AS INT)] AS zip,
    CASE WHEN draw(i, 3) < 0.5 THEN 'female' ELSE 'male' END AS sex,
    CAST(20000 + 500 * floor(160 * draw(i, 4)) AS INTEGER) AS income,
    ['influenza', 'asthma', 'diabetes', 'cancer', 'HIV'][1 + CAST(floor(5 * draw(i, 5) ** 1.5) AS INT)] AS disease
FROM range(6000) AS t(i);
CREATE TABLE survey AS
SELECT *, CASE WHEN age < 40 THEN 12.0 ELSE 9.0 END AS weight FROM town WHERE draw(household, 6) < 0.1;
CREATE TABLE register AS SELECT person, age, zip, sex FROM town;
CREATE TABLE beliefs AS
SELECT disease, count(*) / (SELECT count(*) FROM town) AS probability FROM town GROUP BY disease;
CREATE TABLE neighbors AS SELECT * FROM town WHERE person NOT IN (SELECT person FROM survey) AND person % 5 = 0;
