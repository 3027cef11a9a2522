# ruff: noqa: E501
"""Attacks on the gateway, as lists of statements. Those that are refused are refused from their text alone."""

from __future__ import annotations

# A: rows, identifiers, and aggregates that show one person's value
ROWS = """
SELECT income FROM visits WHERE user_id = 7
SELECT * FROM visits
FROM visits
TABLE visits
SELECT v.* FROM visits v
SELECT user_id FROM visits
SELECT DISTINCT user_id FROM visits
SELECT user_id, region, COUNT(*) FROM visits GROUP BY user_id, region
SELECT COUNT(*) FROM visits GROUP BY user_id
SELECT COUNT(*) FROM visits GROUP BY user_id HAVING user_id = 7
SELECT region, user_id FROM visits GROUP BY 1, 2
SELECT MIN(income), MAX(income) FROM visits
SELECT MAX(user_id) FROM visits
SELECT ARG_MAX(email, income) FROM users JOIN visits USING (user_id)
SELECT ANY_VALUE(income) FROM visits
SELECT FIRST(income) FROM visits
SELECT LIST(income) FROM visits
SELECT ARRAY_AGG(income ORDER BY income) FROM visits
SELECT STRING_AGG(note, ',') FROM visits
SELECT HISTOGRAM(age) FROM visits
SELECT MODE(age) FROM visits
SELECT APPROX_QUANTILE(income, 0.5) FROM visits
SELECT PRODUCT(age) FROM visits
SELECT BIT_XOR(user_id) FROM visits
SELECT BOOL_AND(ok) FROM visits
SELECT CORR(age, income) FROM visits
SELECT ENTROPY(note) FROM visits
SELECT KURTOSIS(age) FROM visits
SELECT SUMMARIZE(visits) FROM visits
SELECT COUNT(*) + income FROM visits
SELECT income, COUNT(*) FROM visits
SELECT *, COUNT(*) FROM visits
SELECT COUNT(*) FROM visits ORDER BY income
SELECT COUNT(*), region FROM visits GROUP BY ward
SELECT region FROM visits ORDER BY COUNT(*)
SELECT visits FROM visits GROUP BY visits.user_id
"""

# B: modifiers that others drop silently
MODIFIERS = """
SELECT SUM(DISTINCT income) FROM visits
SELECT AVG(DISTINCT income) FROM visits
SELECT MEDIAN(DISTINCT income) FROM visits
SELECT COUNT(DISTINCT age, region) FROM visits
SELECT COUNT(DISTINCT *) FROM visits
SELECT COUNT(DISTINCT note ORDER BY note) FROM visits
SELECT SUM(income ORDER BY age) FROM visits
SELECT SUM(income) OVER () FROM visits
SELECT COUNT(*) OVER (PARTITION BY region) FROM visits
SELECT SUM(income) FILTER (WHERE SUM(age) > 1) FROM visits
SELECT SUM(SUM(income)) FROM visits
SELECT SUM(income) FILTER (WHERE COUNT(*) OVER () > 1) FROM visits
SELECT COUNT(COLUMNS(*)) FROM visits
SELECT COUNT(visits.*) FROM visits
SELECT COUNT(*) FROM visits QUALIFY ROW_NUMBER() OVER (ORDER BY income) = 1
SELECT COUNT(*) FROM visits WINDOW w AS (ORDER BY income)
SELECT COUNT(*) FROM visits TABLESAMPLE 10 PERCENT
SELECT COUNT(*) FROM visits USING SAMPLE 1 ROWS
SELECT COUNT(*) FROM visits LIMIT 10%
SELECT region, COUNT(*) FROM visits GROUP BY region FETCH FIRST 1 ROWS WITH TIES
SELECT DISTINCT ON (region) region, COUNT(*) FROM visits GROUP BY region
SELECT COUNT(*) FROM visits FOR UPDATE
SELECT COUNT(*) INTO t FROM visits
SELECT COUNT(*) INTO TEMP t FROM visits
SELECT user_id, COUNT(*) FROM visits GROUP BY ALL
SELECT region, COUNT(*) FROM visits GROUP BY region ORDER BY ALL
SELECT region, COUNT(*) FROM visits GROUP BY ROLLUP (region)
SELECT region, COUNT(*) FROM visits GROUP BY CUBE (region, ward)
SELECT region, COUNT(*) FROM visits GROUP BY GROUPING SETS ((region), ())
SELECT COUNT(*) FROM visits GROUP BY ()
SELECT region, COUNT(*) FROM visits GROUP BY 3
SELECT region, COUNT(*) FROM visits GROUP BY 0
SELECT COUNT(*) FROM visits GROUP BY NULL
SELECT QUANTILE_CONT(income, [0.1, 0.9]) FROM visits
SELECT QUANTILE_CONT(income, 1.5) FROM visits
SELECT QUANTILE_CONT(income, -0.1) FROM visits
SELECT QUANTILE_CONT(income, age) FROM visits
SELECT SUM(note) FROM visits
SELECT AVG(seen) FROM visits
SELECT VARIANCE(user_id * 1.5) FROM visits
SELECT COUNT(*) FILTER (WHERE age) FROM visits
SELECT COUNT(*) FROM visits WHERE age
SELECT COUNT(*) FROM visits WHERE COUNT(*) > 5
"""

# C: joins that make one person's row touch another's
JOINS = """
SELECT COUNT(*) FROM visits a JOIN visits b ON a.age = b.age
SELECT COUNT(*) FROM visits a, visits b
SELECT COUNT(*) FROM visits a CROSS JOIN users b
SELECT COUNT(*) FROM visits a JOIN visits b ON TRUE
SELECT COUNT(*) FROM visits a JOIN visits b ON a.user_id = b.user_id OR a.age = 5
SELECT COUNT(*) FROM visits a JOIN visits b ON NOT (a.user_id = b.user_id)
SELECT COUNT(*) FROM visits a JOIN visits b ON a.user_id <> b.user_id
SELECT COUNT(*) FROM visits a JOIN visits b ON a.user_id = a.user_id
SELECT COUNT(*) FROM visits a JOIN visits b ON a.user_id >= b.user_id AND a.age = b.age
SELECT COUNT(*) FROM visits a JOIN visits b USING (region)
SELECT COUNT(*) FROM visits a JOIN users b ON a.region = b.home
SELECT COUNT(*) FROM visits a LEFT JOIN users b ON a.region = b.home
SELECT COUNT(*) FROM visits a RIGHT JOIN users b ON a.user_id = b.user_id
SELECT COUNT(*) FROM visits a FULL JOIN users b USING (user_id)
SELECT COUNT(*) FROM users NATURAL JOIN (SELECT region AS secret FROM regions) r
SELECT COUNT(*) FROM visits SEMI JOIN users USING (user_id)
SELECT COUNT(*) FROM visits ANTI JOIN users USING (user_id)
SELECT COUNT(*) FROM visits ASOF JOIN users USING (user_id)
SELECT COUNT(*) FROM visits POSITIONAL JOIN users
SELECT COUNT(*) FROM visits v, LATERAL (SELECT * FROM users u WHERE u.user_id = v.user_id) l
SELECT COUNT(*) FROM visits v CROSS JOIN LATERAL (SELECT 1) l
SELECT COUNT(*) FROM items i JOIN orders o ON i.order_id = o.amount
SELECT COUNT(*) FROM items a JOIN items b ON a.order_id = b.order_id
SELECT COUNT(*) FROM items a JOIN items b USING (sku)
SELECT COUNT(*) FROM (SELECT age AS user_id FROM visits) a JOIN visits b USING (user_id)
SELECT COUNT(*) FROM (SELECT user_id + 0 AS user_id FROM visits) a JOIN visits b USING (user_id)
SELECT COUNT(*) FROM (SELECT CAST(user_id AS TEXT) AS u FROM visits) a JOIN (SELECT CAST(user_id AS TEXT) AS u FROM users) b USING (u)
SELECT COUNT(*) FROM (SELECT COALESCE(user_id, 1) AS user_id FROM visits) a JOIN visits b USING (user_id)
SELECT COUNT(*) FROM (SELECT CASE WHEN TRUE THEN user_id END AS user_id FROM visits) a JOIN users USING (user_id)
SELECT COUNT(*) FROM (SELECT 7 AS user_id FROM visits) a JOIN users USING (user_id)
SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION ALL SELECT 7 FROM visits) a JOIN users USING (user_id)
SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION ALL SELECT age FROM visits) a JOIN users USING (user_id)
SELECT COUNT(*) FROM (SELECT MAX(user_id) AS user_id FROM visits GROUP BY visits.user_id) a JOIN users USING (user_id)
SELECT COUNT(*) FROM (SELECT u.user_id FROM visits v LEFT JOIN users u ON v.user_id = u.user_id) a JOIN users USING (user_id)
SELECT COUNT(*) FROM (SELECT LAG(user_id) OVER (PARTITION BY user_id) AS user_id FROM visits) a JOIN users USING (user_id)
SELECT COUNT(*) FROM visits v JOIN regions r ON r.region = v.region JOIN users u ON u.home = r.region
SELECT COUNT(*) FROM visits JOIN (SELECT size AS region FROM regions) r USING (region)
SELECT COUNT(*) FROM (SELECT region, COUNT(*) n FROM visits GROUP BY region) a JOIN visits b USING (region)
SELECT COUNT(*) FROM (SELECT region, COUNT(*) n FROM visits GROUP BY region) a JOIN regions b USING (region)
SELECT COUNT(*) FROM visits v, visits v
SELECT COUNT(*) FROM visits, visits
"""

# D: subqueries in which persons meet
SUBQUERIES = """
SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM users u WHERE u.user_id = 7 AND u.home = 'R1')
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM users u WHERE u.home = v.region)
SELECT COUNT(*) FROM visits WHERE income > (SELECT AVG(income) FROM visits)
SELECT COUNT(*) FROM visits WHERE region IN (SELECT home FROM users)
SELECT COUNT(*) FROM visits WHERE user_id NOT IN (SELECT user_id FROM users)
SELECT COUNT(*) FROM visits WHERE age > ALL (SELECT age FROM visits)
SELECT COUNT(*) FROM visits WHERE age = ANY (SELECT age FROM visits)
SELECT (SELECT income FROM visits LIMIT 1)
SELECT (SELECT COUNT(*) FROM visits), 1
SELECT COUNT(*), (SELECT MAX(income) FROM visits) FROM visits
SELECT SUM((SELECT MAX(income) FROM visits)) FROM visits
SELECT COUNT(*) FROM regions WHERE size > (SELECT COUNT(*) FROM visits WHERE user_id = 7)
SELECT * FROM regions WHERE region IN (SELECT region FROM visits)
SELECT COUNT(*) FROM visits GROUP BY (SELECT 1)
SELECT COUNT(*) FROM visits ORDER BY (SELECT MAX(income) FROM visits)
SELECT COUNT(*) FROM visits LIMIT (SELECT COUNT(*) FROM visits WHERE user_id = 7)
SELECT COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (ORDER BY income DESC) rn FROM visits) WHERE rn = 1 AND user_id = 7
SELECT COUNT(*) FROM (SELECT user_id, RANK() OVER (PARTITION BY region ORDER BY income) r FROM visits) t
SELECT COUNT(*) FROM (SELECT user_id, LAG(income) OVER (ORDER BY user_id) r FROM visits) t
SELECT COUNT(*) FROM (SELECT user_id, SUM(income) OVER (PARTITION BY user_id) r FROM visits) t
SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) OVER (PARTITION BY user_id + 0) r FROM visits) t
SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) OVER (PARTITION BY user_id ORDER BY age ROWS 1 PRECEDING) r FROM visits) t
SELECT COUNT(*) FROM (SELECT user_id, NTILE(4) OVER (ORDER BY income) q FROM visits) t
SELECT COUNT(*) FROM (SELECT user_id, PERCENT_RANK() OVER (ORDER BY income) q FROM visits) t
SELECT COUNT(*) FROM (SELECT user_id, MAX(SUM(income)) OVER () m FROM visits GROUP BY user_id) t WHERE m > 100000
SELECT COUNT(*) FROM (SELECT user_id, RANK() OVER (ORDER BY SUM(income) DESC) r FROM visits GROUP BY user_id) t WHERE r = 1
SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) OVER () n FROM visits GROUP BY user_id) t WHERE n > 39
SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY income DESC LIMIT 1) t
SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 1) t
SELECT COUNT(*) FROM (SELECT * FROM visits OFFSET 1) t
SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY income) t
SELECT COUNT(*) FROM (SELECT DISTINCT ON (region) * FROM visits) t
SELECT COUNT(*) FROM (SELECT user_id FROM visits GROUP BY user_id LIMIT 1) t
SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) FROM visits GROUP BY user_id ORDER BY 2) t
SELECT COUNT(*) FROM (SELECT user_id FROM visits EXCEPT SELECT user_id FROM users) t
SELECT COUNT(*) FROM (SELECT user_id FROM visits EXCEPT ALL SELECT user_id FROM users) t
SELECT COUNT(*) FROM (SELECT user_id FROM visits INTERSECT SELECT user_id FROM users) t
SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION ALL SELECT user_id FROM users LIMIT 1) t
SELECT COUNT(*) FROM (SELECT region FROM visits UNION ALL SELECT region FROM regions) t
SELECT COUNT(*) FROM (SELECT user_id, age FROM visits UNION ALL SELECT user_id FROM users) t
SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION ALL BY NAME SELECT user_id FROM users) t
SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION ALL SELECT email FROM users) t
SELECT COUNT(*) FROM visits UNION ALL SELECT income FROM visits
WITH RECURSIVE t AS (SELECT user_id FROM visits UNION ALL SELECT user_id FROM t) SELECT COUNT(*) FROM t
WITH visits AS (SELECT 1 AS user_id, income FROM visits) SELECT income FROM visits
PIVOT visits ON region USING COUNT(*)
SELECT * FROM visits PIVOT (COUNT(*) FOR region IN ('R0'))
SELECT COUNT(*) FROM visits UNPIVOT (v FOR n IN (age, income))
SELECT SUM(STDDEV(income)) FROM visits GROUP BY region
SELECT COUNT(*) FROM (SELECT user_id, MEDIAN(income) FROM visits GROUP BY user_id) t
SELECT COUNT(*) FROM (SELECT user_id, ANY_VALUE(income) FROM visits GROUP BY user_id) t
SELECT COUNT(*) FROM (SELECT user_id, income FROM visits GROUP BY user_id) t
SELECT COUNT(*) FROM (SELECT *, COUNT(*) FROM visits GROUP BY user_id) t
"""

# F and G: functions that fail, take long, or have effects
FUNCTIONS = """
SELECT COUNT(*) FROM visits WHERE CASE WHEN user_id = 7 THEN error('x') END IS NULL
SELECT COUNT(*) FROM visits WHERE STRPTIME(note, '%Y') IS NULL
SELECT COUNT(*) FROM visits WHERE note::UUID IS NULL
SELECT COUNT(*) FROM visits WHERE note::INT > 1
SELECT COUNT(*) FROM visits WHERE TRY_CAST(note AS INT) > 1
SELECT COUNT(*) FROM visits WHERE note::DATE > '2020-01-01'
SELECT COUNT(*) FROM visits WHERE note::DECIMAL(3, 2) > 1
SELECT COUNT(*) FROM visits WHERE note::JSON IS NULL
SELECT COUNT(*) FROM visits WHERE note::BLOB IS NULL
SELECT COUNT(*) FROM visits WHERE regexp_matches(age::VARCHAR, note)
SELECT COUNT(*) FROM visits WHERE note ~ '(a+)+$'
SELECT COUNT(*) FROM visits WHERE note SIMILAR TO 'a'
SELECT COUNT(*) FROM visits WHERE note GLOB 'a*'
SELECT COUNT(*) FROM visits WHERE note LIKE note
SELECT COUNT(*) FROM visits WHERE note LIKE '%%%%%%%%a'
SELECT COUNT(*) FROM visits WHERE note LIKE 'a\\'
SELECT COUNT(*) FROM visits WHERE note LIKE 'ax%' ESCAPE 'x'
SELECT COUNT(*) FROM visits WHERE chr(user_id - 8) = 'a'
SELECT COUNT(*) FROM visits WHERE factorial(user_id) > 1
SELECT COUNT(*) FROM visits WHERE repeat('a', age * 1000000) = note
SELECT COUNT(*) FROM visits WHERE lpad(note, 100000000, 'x') = note
SELECT COUNT(*) FROM visits WHERE user_id = 7 AND regexp_matches(repeat('a', 30) || '!', '^(a+)+$')
SELECT COUNT(*) FROM visits WHERE random() > 0.5
SELECT COUNT(*) FROM visits WHERE now() > seen
SELECT COUNT(*) FROM visits WHERE CURRENT_TIMESTAMP > seen
SELECT COUNT(*) FROM visits WHERE nextval('s') > 0
SELECT COUNT(*) FROM visits WHERE pg_sleep(1) IS NULL
SELECT COUNT(*) FROM visits WHERE setseed(0.5) IS NULL
SELECT COUNT(*) FROM visits WHERE getenv('HOME') IS NULL
SELECT COUNT(*) FROM visits WHERE current_setting('threads') = '1'
SELECT COUNT(*) FROM visits WHERE hash(user_id) % 2 = 0
SELECT COUNT(*) FROM visits WHERE md5(note) = 'x'
SELECT COUNT(*) FROM visits WHERE age ** 200 > 1
SELECT COUNT(*) FROM visits WHERE age ^ income > 1
SELECT COUNT(*) FROM visits WHERE age << 62 > 1
SELECT COUNT(*) FROM visits WHERE age & 1 = 1
SELECT COUNT(*) FROM visits WHERE ~age = 1
SELECT COUNT(*) FROM visits WHERE seen + INTERVAL 1 YEAR > seen
SELECT COUNT(*) FROM visits WHERE make_date(age, 13, 45) IS NULL
SELECT COUNT(*) FROM visits WHERE age = [1, 2][user_id]
SELECT COUNT(*) FROM visits WHERE {'a': age}.a = 1
SELECT COUNT(*) FROM visits WHERE list_contains([1], age)
SELECT COUNT(*) FROM visits WHERE (age, income) IN ((1, 2))
SELECT COUNT(*) FROM visits WHERE age IN (income, 5)
SELECT COUNT(*) FROM visits WHERE age BETWEEN SYMMETRIC 5 AND 1
SELECT COUNT(*) FROM visits WHERE note COLLATE nocase = 'a'
SELECT COUNT(*) FROM visits WHERE age IS OF (INT)
SELECT COUNT(*) FROM visits WHERE rowid = 1
SELECT COUNT(*) FROM visits WHERE ctid IS NULL
SELECT COUNT(*) FROM visits WHERE age = note
SELECT COUNT(*) FROM visits WHERE seen > 5
SELECT COUNT(*) FROM visits WHERE seen > 'not a date'
SELECT COUNT(*) FROM visits WHERE (x -> x + 1)(age) > 1
SELECT SUM(1e308 * 1e308) FROM visits
SELECT SUM(9999999999999999999999) FROM visits
SELECT SUM(age * 1e-320) FROM visits
SELECT SUM(POW(POW(POW(user_id, 6), 8), 8)) FROM visits
SELECT SUM(POW(age, 1000)) FROM visits
SELECT SUM(CAST('nan' AS DOUBLE)) FROM visits
SELECT SUM(CAST('inf' AS DOUBLE)) FROM visits
SELECT SUM(income / age * 1e18 * 1e18 * 1e18 * 1e18 * 1e18 * 1e18 * 1e18) FROM visits
"""

# G: statements that are none, and tables that are not there
STATEMENTS = """
SET privacy_noise = false
SET dp_epsilon = 1e20
RESET ALL
PRAGMA database_list
ATTACH 'x.db'
INSTALL httpfs
LOAD httpfs
CHECKPOINT
VACUUM
CALL duckdb_tables()
COPY visits TO 'x.csv'
COPY (SELECT * FROM visits) TO STDOUT
EXPORT DATABASE 'x'
CREATE TABLE t AS SELECT * FROM visits
CREATE TEMP TABLE t AS SELECT * FROM visits
CREATE VIEW t AS SELECT * FROM visits
CREATE MACRO f() AS 1
INSERT INTO visits SELECT * FROM visits
UPDATE visits SET age = 1
DELETE FROM visits
DROP TABLE visits
ALTER TABLE visits ADD COLUMN x INT
TRUNCATE visits
MERGE INTO visits USING users ON TRUE WHEN MATCHED THEN DELETE
PREPARE p AS SELECT COUNT(*) FROM visits
EXECUTE p
DEALLOCATE p
DECLARE c CURSOR FOR SELECT * FROM visits
FETCH ALL FROM c
BEGIN
COMMIT
LISTEN x
SHOW TABLES
SHOW ALL
(SHOW ALL)
DESCRIBE visits
SUMMARIZE visits
EXPLAIN ANALYZE SELECT COUNT(*) FROM visits
EXPLAIN (ANALYZE, BUFFERS) SELECT COUNT(*) FROM visits
EXPLAIN VERBOSE ANALYZE SELECT COUNT(*) FROM visits
EXPLAIN (VERBOSE OFF) SELECT COUNT(*) FROM visits
EXPLAIN VERBOSE SELECT income FROM visits
EXPLAIN EXPLAIN SELECT COUNT(*) FROM visits
EXPLAIN SELECT income FROM visits
EXPLAIN DELETE FROM visits
SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits
SELECT COUNT(*) FROM visits; DROP TABLE visits
VALUES (RANDOM())
SELECT * FROM (VALUES ((SELECT income FROM visits))) t
SELECT COUNT(*) FROM 'file.csv'
SELECT COUNT(*) FROM "file.parquet"
SELECT COUNT(*) FROM read_csv('file.csv')
SELECT COUNT(*) FROM read_text('file.csv')
SELECT COUNT(*) FROM glob('*')
SELECT COUNT(*) FROM query('SELECT * FROM visits')
SELECT COUNT(*) FROM query_table('visits')
SELECT COUNT(*) FROM duckdb_tables()
SELECT COUNT(*) FROM json_execute_serialized_sql('{}')
SELECT COUNT(*) FROM generate_series(1, 1000000000)
SELECT COUNT(*) FROM UNNEST([1, 2])
SELECT UNNEST([1, 2])
SELECT COUNT(*) FROM postgres_scan('a', 'b', 'c')
SELECT COUNT(*) FROM information_schema.tables
SELECT COUNT(*) FROM pg_catalog.pg_class
SELECT COUNT(*) FROM sqlite_master
SELECT COUNT(*) FROM other.visits
SELECT COUNT(*) FROM memory.main.visits
SELECT COUNT(*) FROM core_0
SELECT COUNT(*) FROM cells
SELECT COUNT(*) FROM nothing
WITH t AS (DELETE FROM visits RETURNING *) SELECT COUNT(*) FROM t
WITH t AS (INSERT INTO visits SELECT * FROM visits RETURNING *) SELECT COUNT(*) FROM t
WITH t AS (COPY visits TO 'x.csv') SELECT 1
SELECT COUNT(*) FROM (DELETE FROM visits RETURNING *) t
SELECT COUNT(*) FROM visits AT (VERSION => 1)
SELECT COUNT(*) FROM ONLY visits
SELECT COUNT(*) FROM visits WITH ORDINALITY
SELECT COUNT(*) FROM visits t(a, b)
SELECT COUNT(*) FROM visits AS t (user_id, secret)
SELECT COUNT(*) FROM ROWS FROM (f())
SELECT
SELECT FROM visits
SELECT COUNT(* FROM visits
SELECT COUNT(*) FROM visits WHERE 'a
SELECT COUNT(*) FROM visits /* a
nonsense
;
"""

# names: the unit, hidden columns, and names that are taken
NAMES = """
SELECT COUNT(secret) FROM users
SELECT COUNT(*) FROM users WHERE secret = 's'
SELECT COUNT(*) FROM users WHERE SECRET = 's'
SELECT COUNT(*) FROM users WHERE "Secret" = 's'
SELECT COUNT(*) FROM users u WHERE u.secret = 's'
SELECT COUNT(*) FROM users ORDER BY secret
SELECT secret, COUNT(*) FROM users GROUP BY secret
SELECT COUNT(*) FROM (SELECT * FROM users) t WHERE secret = 's'
SELECT COUNT(*) FROM (SELECT user_id, secret AS x FROM users) t
SELECT COUNT(*) FROM users JOIN (SELECT region AS secret FROM regions) r USING (secret)
SELECT COUNT(*) FROM users u JOIN regions r ON r.region = u.secret
SELECT COUNT(*) FROM visits v JOIN users u ON v.user_id = u.user_id AND u.secret = v.note
SELECT COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY secret) FROM users) t
SELECT * EXCLUDE (email) FROM users
SELECT * REPLACE (secret AS email) FROM users
SELECT COLUMNS('s.*') FROM users
SELECT sqlanon_unit FROM visits
SELECT COUNT(sqlanon_unit) FROM visits
SELECT COUNT(*) FROM visits WHERE sqlanon_unit = 7
SELECT COUNT(*) FROM visits WHERE "sqlanon_unit" = 7
SELECT sqlanon_unit, COUNT(*) FROM (SELECT user_id FROM visits) t GROUP BY 1
SELECT COUNT(*) FROM (SELECT user_id AS sqlanon_unit FROM visits) t
SELECT COUNT(*) FROM (SELECT 7 AS SQLANON_UNIT, user_id FROM visits) t
SELECT COUNT(*) AS sqlanon_unit FROM visits
SELECT COUNT(*) FROM visits WHERE r0.user_id = 7
SELECT COUNT(*) FROM visits WHERE t0.secret = 's'
SELECT COUNT(*) FROM visits WHERE core_0.a0 = 7
SELECT a0 FROM (SELECT COUNT(*) FROM visits) t
SELECT COUNT(*) FROM visits v JOIN users u USING (user_id) WHERE visits.age > 1
SELECT COUNT(*) FROM visits a JOIN users b ON a.user_id = b.user_id WHERE user_id = 7
SELECT COUNT(*) FROM visits WHERE other.visits.age = 1
SELECT COUNT(*) FROM visits WHERE agee = 1
"""

OPTIONS = """
epsilon = 1e20
epsilon = 2.0001
epsilon = NaN
epsilon = 'NaN'
epsilon = inf
epsilon = -1
epsilon = 0
epsilon = 1e-320
epsilon = 1e-9
epsilon = 1e400
epsilon = 0x10
epsilon = 1 + 1
epsilon = (SELECT 1)
epsilon = age
epsilon = 1, epsilon = 1
epsilon = 1 delta = 1e-6
epsilon
epsilon = 1
delta = 0.99999
delta = -1
delta = 0
delta = 1
delta = 1e-320
max_rows_contributed = 0
max_rows_contributed = 5
max_rows_contributed = 1.5
max_rows_contributed = -1
max_rows_contributed = 1e400
max_groups_contributed = 1e9
max_groups_contributed = NULL
privacy_unit_column = age
privacy_unit_column = region
privacy_unit_column = nothing
noise = false
seed = 42
min_privacy_units_per_group = 1
group_selection_strategy = PUBLIC_GROUPS
""".replace("\nepsilon = 1\n", "\n")


def listed(*texts: str) -> list[str]:
    return [line for text in texts for line in text.strip().splitlines()]


def doubled(first: str, on: str, other: str) -> str:
    """Fourteen CTEs, each of which reads the one before it twice."""
    steps = [f"a0 AS ({first})"]
    steps += [f"a{n} AS (SELECT x.{on}, x.{other} FROM a{n - 1} x JOIN a{n - 1} y USING ({on}))" for n in range(1, 15)]
    return f"WITH {', '.join(steps)} SELECT COUNT(*) FROM a14"


def refused() -> list[str]:
    """Every statement that must be refused from its text."""
    statements = listed(ROWS, MODIFIERS, JOINS, SUBQUERIES, FUNCTIONS, STATEMENTS, NAMES)
    select = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) COUNT(*) FROM visits"
    statements += [select.format(option) for option in listed(OPTIONS)]
    statements += [
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5 COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 9) COUNT(*) FROM visits) t",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) n FROM (SELECT WITH DIFFERENTIAL_PRIVACY "
        "OPTIONS(epsilon = 1) COUNT(*) n FROM visits) t",
        "SELECT WITH ANONYMIZATION COUNT(*) FROM visits",
        "",
        "SELECT COUNT(*) FROM visits WHERE note = '\x00'",
        "SELECT COUNT(*) FROM visits WHERE note = '\ud800'",
        "SELECT COUNT(*) FROM visits -- " + "x" * 20_000,
        "SELECT COUNT(*) FROM visits WHERE note = '" + "x" * 15_000 + "'",
        "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(["age = 1"] * 900),
        "SELECT SUM(" + "+".join(["age"] * 1400) + ") FROM visits",
        "SELECT COUNT(*) FROM visits WHERE " + "(" * 3000 + "TRUE" + ")" * 3000,
        "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 2000 + "TRUE",
        "SELECT COUNT(*) FROM visits WHERE age > " + "- " * 2500 + "1",
        "SELECT " + ", ".join(["COUNT(*)"] * 101) + " FROM visits",
        "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 40 + "visits" + ") t" * 40,
        "SELECT SUM(" + "SQRT(" * 9 + "age" + ")" * 9 + ") FROM visits",
        doubled("SELECT user_id, age FROM visits", "user_id", "age"),
        doubled("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", "region", "n"),
        "SELECT COUNT(*) FROM visits v, " + ", ".join(f"regions r{number}" for number in range(15)),
    ]
    return statements
