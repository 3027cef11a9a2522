-- A shop with generated customers, nobody real. Deterministic, so that the exact answers are always the same.
CREATE MACRO draw(i, seed) AS (md5_number_lower(CAST(i AS TEXT) || '/' || CAST(seed AS TEXT)) % 1000003) / 1000003.0;
CREATE TABLE cities (city TEXT PRIMARY KEY, country TEXT);
INSERT INTO cities VALUES
    ('Athens', 'Greece'), ('Berlin', 'Germany'), ('Hamburg', 'Germany'), ('Lyon', 'France'), ('Paris', 'France'),
    ('Oia', 'Greece');
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT, city TEXT, born INTEGER);
INSERT INTO customers
SELECT
    i,
    ['Alex', 'Chris', 'Kim', 'Robin', 'Sam', 'Toni'][1 + i % 6] || ' ' || chr(CAST(65 + i % 26 AS INT)) || '.',
    ['Berlin', 'Paris', 'Hamburg', 'Athens', 'Lyon'][1 + CAST(floor(5 * draw(i, 1) ** 1.4) AS INT)],
    CAST(1940 + floor(66 * draw(i, 2)) AS INT)
FROM range(5000) AS t(i);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER, ordered DATE, amount DECIMAL(8, 2));
INSERT INTO orders
SELECT
    j,
    CAST(floor(5000 * draw(j, 3) ** 1.2) AS INT),
    DATE '2025-01-01' + CAST(floor(365 * draw(j, 4)) AS INT),
    CAST(5 + 300 * draw(j, 5) ** 3 AS DECIMAL(8, 2))
FROM range(20000) AS t(j);
CREATE TABLE items (order_id INTEGER, product TEXT, quantity INTEGER);
INSERT INTO items
SELECT
    CAST(floor(20000 * draw(k, 6)) AS INT),
    ['tea', 'coffee', 'honey', 'oil', 'soap', 'figs', 'salt'][1 + CAST(floor(7 * draw(k, 7)) AS INT)],
    CAST(1 + floor(4 * draw(k, 8)) AS INT)
FROM range(50000) AS t(k);
