"""What both servers of the client suite hold: the same tables, made by the same SQL on DuckDB and on PostgreSQL."""

from __future__ import annotations

USER, PASSWORD = "analyst", "correct horse; battery 'staple'"
OTHER, OTHER_PASSWORD = "Ünï", "pässwörd ☃ and more"  # a role and a password that are not plain letters
DATABASE = "warehouse"

# Names that a server must give back as they are.
NAMES = ("Ünïcödé ☃", "O'Brien", "back\\slash", 'dou"ble', "UPPER lower", "tab\tand\nline", "$1 %s {0}", "日本 🎈")

CITIES = (
    ("Athens", "Greece", 643452),
    ("Berlin", "Germany", 3677472),
    ("Kraków", "Poland", 802583),
    ("Ōsaka", "Japan", 2691185),
    ("nowhere", None, None),
)


def literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _values(rows: tuple[tuple[str | int | None, ...], ...]) -> str:
    return ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


PEOPLE = 1000
VISITS = 8000
TABLES = f"""
CREATE TABLE cities (city TEXT PRIMARY KEY, country TEXT, population BIGINT);
INSERT INTO cities VALUES {_values(CITIES)};
CREATE TABLE people_released (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT REFERENCES cities (city), born DATE, height DOUBLE PRECISION,
    income NUMERIC(10, 2), active BOOLEAN, seen TIMESTAMP, grade SMALLINT, code VARCHAR(12));
INSERT INTO people_released
SELECT
    CAST(i AS INTEGER), 'person ' || CAST(i AS TEXT),
    CASE i % 4 WHEN 0 THEN 'Athens' WHEN 1 THEN 'Berlin' WHEN 2 THEN 'Kraków' ELSE 'Ōsaka' END,
    CASE WHEN i % 10 = 0 THEN NULL ELSE DATE '1950-01-01' + CAST(7 * i AS INTEGER) END,
    1.5 + (i % 64) / 128.0, CAST(i AS NUMERIC(10, 2)) * 12.25, i % 3 = 0,
    TIMESTAMP '2024-02-28 23:59:59.5' + CAST(i AS INTEGER) * INTERVAL '1' HOUR,
    CAST(i % 6 AS SMALLINT), 'C' || CAST(i % 100 AS TEXT)
FROM generate_series(1, {PEOPLE}) AS t(i);
CREATE TABLE names (no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO names VALUES {_values(tuple(enumerate(NAMES)))};
CREATE TABLE "Odd Näme" ("Id" INTEGER PRIMARY KEY, "two words" TEXT, "select" INTEGER);
INSERT INTO "Odd Näme" VALUES (1, 'Ä', 10), (2, 'b', 20);
CREATE VIEW greek_cities AS SELECT city, population FROM cities WHERE country = 'Greece';
CREATE TABLE persons (person INTEGER PRIMARY KEY, born INTEGER, region TEXT);
INSERT INTO persons
SELECT CAST(i AS INTEGER), CAST(1930 + i % 80 AS INTEGER), 'R' || CAST(i % 3 AS TEXT)
FROM generate_series(1, 2000) AS t(i);
CREATE TABLE visits (visit INTEGER PRIMARY KEY, person INTEGER, day DATE, cost DOUBLE PRECISION, ward TEXT);
INSERT INTO visits
SELECT
    CAST(i AS INTEGER), CAST(1 + i % 2000 AS INTEGER), DATE '2025-01-01' + CAST(i % 300 AS INTEGER), i % 90,
    'w' || CAST(i % 4 AS TEXT)
FROM generate_series(1, {VISITS}) AS t(i);
CREATE TABLE kinds (
    id INTEGER PRIMARY KEY, i2 SMALLINT, i4 INTEGER, i8 BIGINT, num NUMERIC(20, 4), f4 REAL, f8 DOUBLE PRECISION,
    flag BOOLEAN, txt TEXT, vc VARCHAR(20), d DATE, t TIME, ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL, u UUID,
    raw BYTEA, js JSON, ia INTEGER[], ta TEXT[]);
INSERT INTO kinds VALUES
    (1, -32768, -2147483648, -9223372036854775808, -1234567890123456.7891, -1.5, 2.5e-300, TRUE, 'Ünïcödé ☃', 'short',
     '0044-03-15', '00:00:00', '1900-01-01 00:00:00', '1999-12-31 23:59:59.999999+00', '1 year 2 months 3 days',
     '00112233-4455-6677-8899-aabbccddeeff', BYTES_1, '{{"a": [1, null, "ü"]}}', ARRAY[1, NULL, -3],
     ARRAY['a', 'b"c,', '']),
    (2, 32767, 2147483647, 9223372036854775807, 0.0001, 16777216, 1e300, FALSE, '', 'exactly twenty chars',
     '9999-12-31', '23:59:59.999999', '2038-01-19 03:14:08.000001', '2024-02-29 12:00:00+02', '-1 days 02:03:04.5',
     'ffffffff-ffff-ffff-ffff-ffffffffffff', BYTES_2, 'null', ARRAY[2147483647], ARRAY['NULL', 'ä']),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""
# The two engines write bytes in two ways.
POSTGRES_BYTES = {"BYTES_1": "'\\x00ff275c'", "BYTES_2": "'\\x'"}
DUCKDB_BYTES = {"BYTES_1": "'\\x00\\xFF\\x27\\x5C'::BLOB", "BYTES_2": "''::BLOB"}

POLICY = """
gateway:
  database: warehouse.duckdb
  unit: {table: persons, key: person}
  tables:
    persons: {columns: {born: {low: 1920, high: 2010}, region: {keys: [R0, R1, R2]}}}
    visits:
      unit: person
      columns: {cost: {low: 0, high: 100}, ward: {keys: [w0, w1, w2, w3]}}
    events: {unit: person, columns: {size: {low: 0, high: 1000}}}
    people_released: {public: true}
    cities: {public: true}
    greek_cities: {public: true}
    names: {public: true}
    kinds: {public: true}
    rows_released: {public: true}
    Odd Näme: {public: true}
  rows: 10
  answer_time: 0
  timeout: 60
  failures: 1000  # many tests break a charged statement off
  budget:
    statement: {epsilon: 1, delta: 1e-6, default: 0.01}
    principal: {epsilon: 100, delta: 0.01}
  principals:
    analyst: {}
    Ünï: {tables: [visits, cities]}
    poor: {epsilon: 0.05}
"""
# Rows to stream; and rows of persons that take a processor some seconds to add up.
STREAMED = 200_000
LARGE = """
CREATE TABLE rows_released (id INTEGER PRIMARY KEY, name TEXT, amount DOUBLE PRECISION, day DATE);
INSERT INTO rows_released
SELECT CAST(i AS INTEGER), 'row ' || CAST(i AS TEXT), i * 0.5, DATE '2000-01-01' + CAST(i % 9000 AS INTEGER)
FROM generate_series(1, {streamed}) AS t(i);
"""
EVENTS = """
CREATE TABLE events (person INTEGER, size DOUBLE PRECISION);
INSERT INTO events SELECT CAST(1 + (i * 7919) % 2000 AS INTEGER), i % 997 FROM generate_series(1, {events}) AS t(i);
"""


def sql_for(dialect: str) -> str:
    text = TABLES
    for name, written in (DUCKDB_BYTES if dialect == "duckdb" else POSTGRES_BYTES).items():
        text = text.replace(name, written)
    return text
