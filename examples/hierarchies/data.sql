-- People of three countries, nobody real. Deterministic, so that every run prints the same numbers.
CREATE MACRO draw(i, seed) AS (md5_number_lower(CAST(i AS TEXT) || '/' || CAST(seed AS TEXT)) % 1000003) / 1000003.0;
CREATE TABLE cities (city TEXT PRIMARY KEY, state TEXT, country TEXT);
INSERT INTO cities VALUES
    ('Berlin', 'Berlin', 'Germany'), ('Potsdam', 'Brandenburg', 'Germany'), ('Munich', 'Bavaria', 'Germany'),
    ('Nuremberg', 'Bavaria', 'Germany'), ('Vienna', 'Vienna', 'Austria'), ('Graz', 'Styria', 'Austria');
CREATE TABLE people AS
SELECT
    i AS person,
    DATE '1940-01-01' + CAST(floor(60 * 365 * draw(i, 1)) AS INTEGER) AS born,
    (SELECT list(city ORDER BY city) FROM cities)[1 + CAST(floor(6 * draw(i, 2)) AS INT)] AS city,
    ['Engineer', 'Lawyer', 'Dancer', 'Writer', 'Retired'][1 + CAST(floor(5 * draw(i, 3)) AS INT)] AS job,
    ['Primary', 'Secondary', 'Bachelor', 'Master'][1 + CAST(floor(4 * draw(i, 4)) AS INT)] AS education,
    CAST(20000 + 1000 * floor(80 * draw(i, 5)) AS INTEGER) AS income
FROM range(3000) AS t(i);
