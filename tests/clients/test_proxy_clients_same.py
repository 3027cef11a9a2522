"""The same statement on PostgreSQL and on the proxy: the same columns, types, rows and errors, in text and in binary.

Only tables without persons are asked: what is told about persons has noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from proxy_servers import Server
from raw_client import SYNC, Raw, Reply, bind, describe, execute, parse, query

# To the last byte: names, types and values.
EXACT = [
    "SELECT * FROM cities ORDER BY city",
    "SELECT * FROM people_released ORDER BY id",
    "SELECT i2, i4, i8, num, f4, f8, flag, txt, vc, d, ts, u FROM kinds ORDER BY id",
    "SELECT * FROM kinds ORDER BY id",
    'SELECT * FROM "Odd Näme" ORDER BY 1',
    "SELECT id, name FROM people_released WHERE id BETWEEN 10 AND 20 ORDER BY name DESC",
    "SELECT count(*), count(born), count(DISTINCT city) FROM people_released",
    "SELECT max(born), min(name), max(seen), min(height) FROM people_released",
    "SELECT city, count(*) AS n FROM people_released GROUP BY city ORDER BY city",
    "SELECT city, count(*) FILTER (WHERE active) FROM people_released GROUP BY 1 HAVING count(*) > 1 ORDER BY 1",
    "SELECT p.id, country FROM people_released p JOIN cities c ON c.city = p.city WHERE p.id < 9 ORDER BY p.id",
    "SELECT c.city, count(id) FROM cities c LEFT JOIN people_released p ON p.city = c.city GROUP BY c.city ORDER BY 1",
    "WITH old AS (SELECT id, born FROM people_released WHERE born < '1951-01-01') SELECT count(*) FROM old",
    "SELECT DISTINCT grade FROM people_released ORDER BY grade",
    "SELECT id FROM people_released ORDER BY height DESC, id LIMIT 5 OFFSET 2",
    "SELECT name FROM people_released WHERE name LIKE 'person 99%' ORDER BY 1",
    "SELECT id FROM people_released WHERE city IN ('Athens', 'Ōsaka') AND born IS NULL ORDER BY id",
    "SELECT id FROM people_released WHERE NOT active AND grade <> 3 ORDER BY id LIMIT 7",
    "SELECT city FROM cities UNION SELECT country FROM cities ORDER BY 1",
    "SELECT city FROM cities UNION ALL SELECT name FROM names ORDER BY 1",
    "SELECT upper(city), lower(city), city || '!' FROM cities ORDER BY city",
    "SELECT CASE WHEN population > 1000000 THEN 'large' ELSE 'small' END AS size FROM cities ORDER BY city",
    "SELECT coalesce(country, 'none'), nullif(city, 'Athens') FROM cities ORDER BY city",
    "SELECT height * 2, height / 4, height + 1 FROM people_released ORDER BY id LIMIT 9",
    "SELECT id::text AS a, id::bigint AS b, id::float8, born::timestamp FROM people_released ORDER BY 2 LIMIT 3",
    "SELECT city, row_number() OVER (ORDER BY city) FROM cities ORDER BY city",
    "SELECT 'Ünïcödé ☃' AS \"Ä\", true, NULL, 'x'::text FROM cities ORDER BY city LIMIT 1",
    "SELECT E'a\\tb', $$it's$$, '\\n' FROM cities LIMIT 1",
    "SELECT 1, 'a', 1.5, true, NULL, 10000000000, -5, 1e3",
    "SELECT 1 + 1, 7 / 2, 7 % 2, 'a' || 'b', 1 < 2, 1 = 1 AND false",
    "SELECT DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00', TIME '12:34', INTERVAL '1 day 02:00'",
    "SELECT ARRAY[1, 2], ARRAY['a', 'b'], '{1,NULL}'::int4[], '{\"a\": 1}'::json, '\\x00ff'::bytea",
    "SELECT '2024-01-01'::date, '1.50'::numeric, '5'::int2, 't'::bool, 'a'::varchar(5), '1'::float4",
    "SELECT current_schema(), current_database(), current_user, session_user",
    "SELECT upper('ü'), length('日本'), abs(-5), round(2.5), coalesce(NULL, 1)",
    "TABLE cities",
    "SHOW TimeZone",
    "SHOW standard_conforming_strings",
    "SELECT relname, relkind FROM pg_catalog.pg_class WHERE relname = 'cities'",
    "SELECT table_name, table_type FROM information_schema.tables "
    "WHERE table_schema = 'public' AND table_name = 'cities'",
    "SELECT column_name, data_type, is_nullable, ordinal_position FROM information_schema.columns "
    "WHERE table_name = 'people_released' AND column_name <> 'code' ORDER BY ordinal_position",
    "SELECT nspname FROM pg_namespace WHERE nspname IN ('public', 'pg_catalog', 'information_schema') ORDER BY 1",
    "SELECT oid, typname, typlen, typtype, typelem, typarray FROM pg_type WHERE oid IN (16, 20, 23, 1007) ORDER BY 1",
    "SELECT 'int4'::regtype, 23::regtype::text",
    "SELECT format_type(23, -1), format_type(1700, 655366), format_type(1043, 16)",
    "SELECT datname FROM pg_database WHERE datname = current_database()",
    "SELECT * FROM pg_catalog.unnest('{a,b}'::text[]) WITH ORDINALITY AS t(word, place)",
    "SELECT * FROM pg_catalog.generate_series(5, 7) WITH ORDINALITY",
    "SELECT n, u.* FROM pg_catalog.generate_series(1, 2) n, LATERAL unnest(ARRAY[n, n * 2]) WITH ORDINALITY AS u "
    "ORDER BY 1, 3",
    "SELECT * FROM pg_catalog.upper('a') WITH ORDINALITY",
    "SELECT * FROM pg_partition_ancestors('cities') WITH ORDINALITY",
    "SELECT pg_partition_ancestors('pg_class') UNION ALL VALUES (1259::regclass)",
    "SELECT '{1.50,-2}'::numeric[], ARRAY[1.50, -2], ARRAY[1, 2]::numeric[], '{1.50,-2}'::numeric[]::text",
    "SELECT '{1.50,-2}'::numeric[], relname FROM pg_class WHERE relname IN ('cities', 'visits') ORDER BY 2",
    "SELECT '{{1,2},{3,4}}'::int4[], ' { {a , \"b c\"},{NULL,\"null\"} } '::text[], '{{1.50},{-2}}'::numeric[]",
    "SELECT ARRAY[[1, 2], [3, 4]], ARRAY[[1, 2], [3, 4]]::numeric[], ARRAY[['a', NULL]], ARRAY[[1.50], [2]]",
    "SELECT '{{{1},{2}},{{3},{4}}}'::int4[]::text",
    "SELECT '{{2020-01-01}}'::date[], '{{1 day}}'::interval[], '{{t,f}}'::bool[]",
    "SELECT '{{pg_class}}'::regclass[], '{{{{{{1}}}}}}'::int4[], ARRAY['{1,2}'::int4[], '{3,4}']",
    "SELECT a.amname FROM pg_am a JOIN pg_am b JOIN pg_am c ON b.oid = c.oid ON a.oid = b.oid ORDER BY 1",
    "SELECT count(*) FROM pg_am a NATURAL JOIN pg_am b CROSS JOIN pg_am c, pg_am d LEFT JOIN pg_am e USING (oid)",
    "SELECT ARRAY[1, 2]::text[], '{1,2}'::text[]::int4[], ARRAY[1, NULL]::float8[]",
    "SELECT 'pg_class'::regclass, 'public'::regnamespace, 0::regclass, NULL::regtype, 'array_in'::regproc",
    "SELECT ARRAY['pg_class'::regclass, NULL], '{int4,text}'::regtype[], '{}'::regclass[], '{1259}'::regclass[]",
    "SELECT oid::regclass, oid FROM pg_class WHERE oid IN (1259, 1249) ORDER BY 2",
    "SELECT array_agg(oid::regclass) FROM pg_class WHERE oid = 1259",
    "SELECT INTERVAL '1 year 2 months 3 days 04:05:06.5', INTERVAL '-1 day +02:00', INTERVAL '3 hours ago'",
    "SELECT INTERVAL '1.5 days', INTERVAL '90' MINUTE, INTERVAL 'P1DT2H', '1 day 02:00'::interval, INTERVAL '-2' DAY",
    "SELECT DATE '2024-02-28' + INTERVAL '1 day 02:00'",
    """SELECT '{"b": 1, "aa": [1.50,1E3 , -0, 1e-3, null],"a":{}, "b" : "\\u00fc\\n\\"" }'::jsonb, '[ ]'::jsonb""",
    """SELECT '{"b" :1,  "a":2}'::json, '{"b" :1,  "a":2}'::json::jsonb, ('{"b" :1,' || '  "a":2}')::jsonb""",
    "SELECT relname::json, (chr(34) || relname || chr(34))::jsonb FROM pg_class WHERE relname = '0'",
    "SELECT * FROM current_schema()",
    "SELECT * FROM current_database() AS db",
    "SELECT nspname FROM unnest(current_schemas(true)) AS nspname",
    "SELECT current_setting('default_table_access_method')",
    "SELECT set_config('bytea_output', 'hex', false)",
    "SELECT pg_catalog.set_config('search_path', 'public', false)",
    "SELECT set_config('bytea_output','hex',false) FROM pg_show_all_settings() WHERE name = 'bytea_output'",
    "SELECT set_config(name, 'hex', false) FROM pg_settings WHERE name = 'bytea_output'",
    "SET synchronize_seqscans TO off",
    "SELECT current_setting('bytea_output') AS cur, set_config('bytea_output', 'hex', false) AS new",
    "SELECT current_setting('nothing.here', true), set_config('bytea_output', 'hex', 'f')",
    "SELECT name, setting FROM pg_show_all_settings() WHERE name = 'DateStyle'",
    "SELECT xmin, xmax, cmin, cmax FROM pg_class WHERE false",
    "SELECT xmin::text::bigint > 0 AS x FROM pg_class LIMIT 1",
    "SELECT parse_ident('a.\"B\".c'), parse_ident(' Public . Cities '), parse_ident('a.b()', false)",
    "SELECT true AS select",
    "SELECT 1 AS from, 2 AS where",
    "SELECT * FROM generate_series(1, 10, 3) AS g(n)",
    "SELECT g, g * 2 FROM generate_series(1, 3) AS g",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y)",
    "VALUES (1, 'a'), (2, 'b')",
    "WITH t(a, b) AS (VALUES (1, 'x'), (2, 'y')) SELECT b FROM t WHERE a = 2",
    "SELECT * FROM unnest(ARRAY[1, 2, 3], ARRAY['a', 'b']) WITH ORDINALITY AS t(a, b, n)",
    "SELECT * FROM unnest(ARRAY[1, 2], NULL::text[])",
    "SELECT k.* FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY AS k(key, option, n) "
    "WHERE i.indrelid = 'cities'::regclass",
    "SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE",
    'SELECT "public"."cities"."city", count(*) FROM "public"."cities" GROUP BY "public"."cities"."city" ORDER BY 1',
    "SELECT public.cities.* FROM public.cities WHERE public.cities.country IS NOT NULL ORDER BY 1",
    "SELECT count(*) FROM people_released WHERE name NOT LIKE 'person 9%' AND name NOT ILIKE 'PERSON 8%'",
    "SELECT city FROM cities ORDER BY city FETCH FIRST 2 ROWS ONLY",
    "SELECT city FROM cities ORDER BY city OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY",
    "SELECT city FROM cities ORDER BY city FETCH FIRST ROW ONLY",
    "SELECT sum(population) FROM cities",
    "SELECT sum(id) FROM people_released",
    "SELECT sum(income), max(income), min(income) FROM people_released",
    "SELECT sum(income) FILTER (WHERE id < 5) FROM people_released",
    "SELECT city, sum(income) FROM people_released GROUP BY city HAVING sum(income) > 10 ORDER BY sum(income)",
    "SELECT max(grade), min(id), max(height) FROM people_released",
    "SELECT city || population FROM cities ORDER BY city",
    "SELECT id || 'x' FROM people_released ORDER BY id LIMIT 2",
    "SELECT name || height || born || active || seen FROM people_released ORDER BY id LIMIT 3",
    "SELECT count(*)::int, count(*)::int2, 5::int4 FROM cities",
    "SELECT id::int2 AS a, id::numeric(10,2) AS b, height::real AS c, name::varchar(3) AS d, name::varchar AS e"
    " FROM people_released ORDER BY id LIMIT 2",
    "SELECT income::text, height::text FROM people_released ORDER BY id LIMIT 70",
    "SELECT seen::text AS a, born::text AS b, active::text AS c FROM people_released ORDER BY id LIMIT 2",
    "SELECT tz::text FROM kinds ORDER BY id",
    "SELECT id FROM kinds WHERE tz > '2000-01-01'",
    "SELECT id FROM kinds WHERE tz = '2024-02-29 12:00:00+02'",
    "SELECT id FROM kinds WHERE tz = '2024-02-29 10:00:00'",
    "SELECT id FROM kinds WHERE tz = timestamptz '2024-02-29 05:00:00-05'",
    "SELECT id FROM kinds WHERE tz >= '2024-02-29 10:00:00Z'::timestamptz",
    "SELECT id FROM kinds WHERE tz BETWEEN '1999-12-31' AND '2000-01-01' ORDER BY tz",
    "SELECT tz, count(*) FROM kinds GROUP BY tz ORDER BY tz",
    "SELECT max(tz), min(tz) FROM kinds",
    "SELECT DISTINCT tz FROM kinds ORDER BY tz",
    "SELECT * FROM persons WHERE 1=0",
    "SELECT * FROM visits LIMIT 0",
    "SELECT * FROM (SELECT * FROM persons) t WHERE 1=0",
    "SELECT * FROM (SELECT * FROM persons) t LIMIT 0",
    "SELECT * FROM persons p JOIN visits v ON p.person = v.person WHERE 1=0",
    "SELECT count(*) FROM persons LIMIT 0",
    "SELECT * FROM (SELECT ward, count(*) AS n FROM visits GROUP BY ward) x LIMIT 0",
    "SELECT count(*) FROM cities, generate_series(1, 2)",
    "SELECT g, city FROM generate_series(1, 2) AS g CROSS JOIN cities ORDER BY 1, 2",
    "SELECT n FROM generate_series(10, 1, -4) AS s(n), cities WHERE city = 'Athens' ORDER BY n",
    "SELECT id, ts, tz FROM kinds WHERE tz IS NOT NULL AND ts < tz ORDER BY 1",
    "SELECT a.id FROM kinds a JOIN kinds b ON a.tz = b.tz ORDER BY 1",
    "SELECT id FROM kinds WHERE tz IN ('2024-02-29 10:00:00+00', '2020-01-01')",
    """SELECT '{"b": 1, "a": 2}'::jsonb::text, ARRAY['[1,2]'::jsonb], '{"[ 1,2]"}'::jsonb[], ' 1.0 '::jsonb""",
]
# Numbers that are computed have the same value; the proxy computes in int8 and float8, whatever the columns have.
ALIKE = [
    "SELECT date_trunc('day', tz), count(*) FROM kinds GROUP BY 1 ORDER BY 1",
    "SELECT extract(year FROM tz), CASE WHEN id > 1 THEN tz END FROM kinds ORDER BY id",
    "SELECT v.y, c.country FROM cities c JOIN (VALUES ('Athens', 1), ('Berlin', 2)) AS v(x, y) ON v.x = c.city "
    "ORDER BY 1",
    "SELECT * FROM cities JOIN (VALUES (1.5, NULL, true)) AS v ON true WHERE city = 'Athens'",
    "SELECT person, born + 1 AS b FROM persons WHERE false",
    "SELECT min(id), max(grade), length(min(name)) FROM people_released",
    "SELECT id + 1, id * 2, id - 3, id / 2, id % 7, -id FROM people_released ORDER BY id LIMIT 9",
    "SELECT income, income + 1, income * 2 FROM people_released ORDER BY id LIMIT 9",
    "SELECT sum(id), sum(height), sum(income), sum(population) FROM people_released JOIN cities USING (city)",
    "SELECT avg(id), avg(height), avg(income), stddev(id), variance(height) FROM people_released",
    "SELECT EXTRACT(year FROM born), EXTRACT(month FROM seen) FROM people_released WHERE id < 5 ORDER BY id",
    "SELECT 1, 1.5, 2 * 3.5 FROM cities LIMIT 1",
    "SELECT 7.0 / 2, 2.5 * 2, abs(-1.5)",
    "SELECT date_trunc('month', seen), date_trunc('day', born) FROM people_released WHERE id < 5 ORDER BY id",
]
REFUSED = [
    "SELECT nothing FROM cities",
    "SELECT cities.nothing FROM cities",
    "SELECT city FROM nowhere",
    "SELECT city FROM public.nowhere",
    "SELECT city FROM elsewhere.cities",
    "SELECT city FROM cities, people_released",
    "SELECT country, count(*) FROM cities",
    "SELECT city FROM cities WHERE population = 'many'",
    "SELECT city FROM cities ORDER BY 5",
    "SELECT no_such_function(city) FROM cities",
    "SELECT city FROM cities GROUP BY",
    "SELECT 'a'::int4",
    "SELECT * FROM cities WHERE city = ",
    "SELECT city FROM cities WHERE city = 1.5",
    "SELEC city FROM cities",
    "FETCH ALL FROM nothing",
    "DEALLOCATE nothing",
    "EXECUTE nothing",
    "CLOSE nothing",
    "SHOW nothing",
    "RESET nothing",
    "SAVEPOINT outside",
    "DECLARE c CURSOR FOR SELECT 1",
    "SELECT oid::regclass, oid FROM pg_class ORDER BY oid",
    "SELECT count(*) FROM visits POSITIONAL JOIN cities",
    "SELECT count(*) FROM visits JOIN cities",
    "SELECT count(*) FROM cities a LEFT JOIN cities b",
    "SELECT count(*) FROM cities a CROSS JOIN cities b ON true",
    "SELECT count(*) FROM pg_class POSITIONAL JOIN pg_am",
    "SELECT count(*) FROM pg_class JOIN pg_am",
    "SELECT count(*) FROM pg_class, (pg_am a INNER JOIN pg_am b)",
    "SELECT count(*) FROM pg_class NATURAL JOIN pg_am USING (oid)",
    "SELECT '{{1},{2,3}}'::int4[]",
    "SELECT '{{1,2},3}'::int4[]",
    "SELECT '{1,{2}}'::int4[]",
    "SELECT '{{},{}}'::int4[]",
    "SELECT '{{1,2}{3,4}}'::int4[]",
    "SELECT '{{1},}'::int4[]",
    "SELECT '{{1}'::int4[]",
    "SELECT '{{1}}}'::int4[]",
    "SELECT '{{a}}'::int4[]",
    "SELECT ARRAY[[1, 2], [3]]",
    "SELECT 'nothing'::regclass",
    "SELECT '{pg_class,nothing}'::regclass[]",
    "SELECT INTERVAL '1 day 02:99'",
    "SELECT INTERVAL '1 dog'",
    """SELECT '{"a": 1'::jsonb""",
    """SELECT '"\\u0000"'::jsonb""",
    """SELECT '"\\ud800"'::jsonb""",
    "SELECT '1e999999999'::jsonb",
    "SELECT relname::jsonb FROM pg_class WHERE relname = 'cities'",
    "SELECT set_config('nothing', 'x', false)",
    "SELECT set_config('DateStyle', 'nothing', false)",
    "SELECT set_config($1, 'x', false)",
    "SELECT current_setting('nothing.here'), set_config('bytea_output', 'hex', false)",
    "SELECT parse_ident('a.')",
    "SELECT parse_ident('1a')",
    "SELECT parse_ident('a.b(c)')",
    "SELECT * FROM nothing(1)",
    "SELECT public.c.city FROM cities c",
    "SELECT elsewhere.cities.city FROM cities",
    "SET TIME ZONE INTERVAL '1 month'",
    "SELECT nothing FROM persons LIMIT 0",
    "SELECT person FROM persons ORDER BY nothing LIMIT 0",
    "SELECT 1 FROM cities, generate_series(1, 2, 0)",
    "SELECT 1 FROM cities, (VALUES (1), (2, 3)) AS v",
    "SELECT 1 FROM cities, (VALUES (1)) AS v(a, b)",
    "SELECT id FROM kinds WHERE tz = 'yesterday evening'",
]
NUMBERS = {20, 21, 23, 700, 701, 1700}


@pytest.fixture(scope="module")
def both(real_server: Server, proxy_server: Server) -> Iterator[tuple[Raw, Raw]]:
    with Raw(real_server.host, real_server.port) as real, Raw(proxy_server.host, proxy_server.port) as proxy:
        real.login(real_server.user, real_server.password, real_server.database)
        yield real, proxy.login(proxy_server.user, proxy_server.password, proxy_server.database)


def shown(replies: list[Reply]) -> list[object]:
    """Without the numbers of tables and columns, which are each server's own."""
    found: list[object] = []
    for reply in replies:
        if reply.kind == "T":
            # DuckDB keeps a VARCHAR(12) as a text.
            found.append([(name, 25 if oid == 1043 else oid, form) for name, oid, form in reply.columns])
        elif reply.kind == "D":
            found.append(reply.row)
        elif reply.kind == "E":
            found.append(reply.fields["C"])
        else:
            found.append((reply.kind, reply.body))
    return found


def alike(replies: list[Reply]) -> list[object]:
    """Numbers as numbers, days as the beginnings of days; the names as they are."""
    found: list[object] = []
    kinds: list[int] = []
    for reply in replies:
        if reply.kind == "T":
            kinds = [oid for _, oid, _ in reply.columns]
            found.append([name for name, _, _ in reply.columns])
        elif reply.kind == "D":
            found.append([value(kind, cell) for kind, cell in zip(kinds, reply.row, strict=True)])
        elif reply.kind == "E":
            found.append(reply.fields["C"])
    return found


def value(kind: int, cell: bytes | None) -> Any:
    if cell is None or kind not in NUMBERS:
        return cell and cell.removesuffix(b"+00").removesuffix(b" 00:00:00")
    return pytest.approx(float(cell), rel=1e-12)


@pytest.mark.parametrize("sql", EXACT)
def test_the_same_answer(both: tuple[Raw, Raw], sql: str) -> None:
    real, proxy = (shown(each.ask(query(sql))) for each in both)
    assert proxy == real
    for form in (0, 1):
        asked = (parse("", sql), describe("S", ""), bind("", "", (), (), (form,)), execute(), SYNC)
        real, proxy = (shown(each.ask(*asked)) for each in both)
        assert proxy == real


@pytest.mark.parametrize("sql", ALIKE)
def test_the_same_numbers(both: tuple[Raw, Raw], sql: str) -> None:
    real, proxy = (alike(each.ask(query(sql))) for each in both)
    assert proxy == real


@pytest.mark.parametrize("sql", REFUSED)
def test_the_same_refusal(both: tuple[Raw, Raw], sql: str) -> None:
    asked = (parse("", sql), bind("", ""), execute(), SYNC)
    simple, extended = ([each.ask(query(sql))[-1] for each in both], [each.ask(*asked)[-1] for each in both])
    for real, proxy in (simple, extended):
        assert real.kind == proxy.kind == "E"
        assert proxy.fields["C"] == real.fields["C"]


@pytest.mark.parametrize("sql", ["SELECT", "SELECT FROM pg_am", "SELECT FROM cities", "SELECT WHERE false"])
def test_a_select_of_nothing_is_refused_by_the_proxy_alone(both: tuple[Raw, Raw], sql: str) -> None:
    real, proxy = (each.kinds(query(sql)) for each in both)
    assert real.startswith("T ") and proxy == "0A000"


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT $1::float8", (b"0", b"-0", b"0")),
        ("SELECT $1::numeric", (b"1.5", b"1.50", b"1.5")),
        ("SELECT $1::bool, $1", (b"t", b"1")),
        ("SELECT $1", (b"1", b"01")),
    ],
)
def test_an_answer_is_not_taken_for_that_of_an_equal_parameter(
    both: tuple[Raw, Raw], sql: str, values: tuple[bytes, ...]
) -> None:
    for value in values:
        real, proxy = (shown(each.ask(parse("", sql), bind("", "", (value,)), execute(), SYNC)) for each in both)
        assert proxy == real


def test_the_number_of_a_session(server: Server) -> None:
    """What a client was told at the start, and would cancel by, is what pg_backend_pid() says."""
    with Raw(server.host, server.port) as raw:
        raw.login(server.user, server.password, server.database)
        assert raw.ask(query("SELECT pg_backend_pid()"))[1].row == [str(raw.process).encode()]


def test_set_config_is_a_set(server: Server) -> None:
    with Raw(server.host, server.port) as raw:
        raw.login(server.user, server.password, server.database)
        raw.ask(query("SELECT set_config('application_name', 'süß', false)"))
        raw.ask(query("BEGIN; SELECT set_config('statement_timeout', '12345', true)"))
        assert raw.ask(query("SHOW statement_timeout"))[1].row == [b"12345ms"]
        raw.ask(query("COMMIT"))
        assert raw.ask(query("SHOW statement_timeout"))[1].row == [b"0"]
        assert raw.kinds(query("SELECT set_config('is_superuser', 'on', false)")) == "T 55P02"


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT city FROM cities WHERE city IN ($1,$2) ORDER BY 1", (b"Athens", b"Berlin")),
        ("SELECT $1::int+$2::int", (b"4", b"5")),
        (
            "SELECT current_setting($1), set_config($2, $3, $4) AS new",
            (b"bytea_output", b"search_path", b"public", b"f"),
        ),
        ("SELECT id FROM people_released WHERE id=ANY($1)AND id<$2 ORDER BY 1", (b"{1,2,9}", b"9")),
    ],
)
def test_parameters_that_touch(both: tuple[Raw, Raw], sql: str, values: tuple[bytes, ...]) -> None:
    asked = (parse("", sql), describe("S", ""), bind("", "", values), execute(), SYNC)
    real, proxy = (shown(each.ask(*asked)) for each in both)
    assert proxy == real
