"""Generated microdata for benchmarks: like a census file, deterministic, made inside DuckDB.

`raw` holds values as collected: half a million classes in a million rows, most of one record. `released` holds the same
rows as a release would: age in ten-year bands and coarser categories, about a thousand classes.
"""

from __future__ import annotations

import duckdb

QI = ["sex", "age", "race", "marital_status", "education", "native_country", "workclass"]

RAW = """
CREATE TABLE raw AS
SELECT
    CASE WHEN u(i, 1) < 0.67 THEN 'Male' ELSE 'Female' END AS sex,
    CAST(17 + floor(73 * u(i, 2) ** 1.6) AS INTEGER) AS age,
    ['White', 'Black', 'Asian-Pac-Islander', 'Other', 'Amer-Indian-Eskimo'][1 + CAST(floor(5 * u(i, 3) ** 5) AS INT)]
        AS race,
    'marital-' || CAST(floor(7 * u(i, 4) ** 2) AS INT) AS marital_status,
    'education-' || CAST(floor(16 * u(i, 5) ** 1.5) AS INT) AS education,
    'country-' || CAST(floor(41 * u(i, 6) ** 8) AS INT) AS native_country,
    'workclass-' || CAST(floor(7 * u(i, 7) ** 3) AS INT) AS workclass,
    'disease-' || CAST(floor(14 * u(i, 8) ** 1.3) AS INT) AS disease,
    CAST(floor(20 * u(i, 9) ** 2) AS INTEGER) AS visits
FROM range({rows}) AS t(i)
"""
RELEASED = """
CREATE TABLE released AS
SELECT
    sex,
    CAST(age // 10 * 10 AS TEXT) || '-' || CAST(age // 10 * 10 + 9 AS TEXT) AS age,
    CASE WHEN race = 'White' THEN race ELSE 'Other' END AS race,
    CASE WHEN marital_status < 'marital-3' THEN 'spouse present' ELSE 'spouse not present' END AS marital_status,
    'education-group-' || CAST(CAST(substr(education, 11) AS INT) // 4 AS TEXT) AS education,
    CASE WHEN native_country = 'country-0' THEN native_country ELSE 'elsewhere' END AS native_country,
    CASE WHEN workclass = 'workclass-0' THEN workclass ELSE 'other' END AS workclass,
    disease,
    visits
FROM raw
"""


def generate(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    # md5, since DuckDB's hash() of (i, seed) is linear in the seed: two such streams would be correlated.
    draw = "md5_number_lower(CAST(i AS TEXT) || '/' || CAST(seed AS TEXT)) % 1000003"
    connection.execute(f"CREATE OR REPLACE MACRO u(i, seed) AS ({draw}) / 1000003.0")
    connection.execute(RAW.format(rows=rows))
    connection.execute(RELEASED)
