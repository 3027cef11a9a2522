"""An analyst with a login who means harm: what is refused, through every way in, and what none of it tells."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from conftest import TESTS
from hostile_ways import WAYS, World, cursor, hostile_world, http_query, own_words, simple, with_parameter
from proxy_world import OTHER, OTHER_PASSWORD, PASSWORD
from raw_client import SYNC, bind, execute, parse, query

REFUSED = [
    line
    for line in (TESTS / "hostile" / "refused.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
# What a refusal may be: of the statement, of its privileges, of a limit; never a failure of an engine or a worker.
CLASSES = ("0A000", "08P01", "22", "25006", "25P01", "25P02", "26000", "28000", "34000", "42", "54", "55")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with hostile_world() as found:
        yield found


def refused(world: World, sql: str, ways: tuple[object, ...] = WAYS) -> None:
    for way in ways:
        found = way(world, sql)  # type: ignore[operator]
        name = way.__name__  # type: ignore[attr-defined]
        assert found.errors, (name, found.rows[:3])
        assert not found.rows, name
        for sqlstate, said in found.errors:
            assert sqlstate.startswith(CLASSES), (name, sqlstate, said)
            assert own_words(said, sql), (name, said)


# ---- statements


def test_the_list_is_long() -> None:
    assert len(REFUSED) > 400 and len(set(REFUSED)) == len(REFUSED)


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, len(REFUSED), 20), ids=lambda start: REFUSED[start][:40])
def test_refused_through_every_way_in_and_nothing_is_charged(world: World, start: int) -> None:
    before = world.server.charges()
    for place, sql in enumerate(REFUSED[start : start + 20]):
        # Every statement through every door; the variants of a door in turn.
        variants = [way for number, way in enumerate(WAYS) if way not in DOORS and (number + place) % 4 == 0]
        refused(world, sql, (*DOORS, *variants))
    assert world.server.charges() == before


DOORS = (simple, with_parameter, cursor, WAYS[6], WAYS[8], http_query)


@pytest.mark.long
@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:50])
def test_refused_through_all_variants(world: World, sql: str) -> None:
    refused(world, sql)


BROAD = {
    "brackets": "SELECT " + "(" * 9_900 + "1" + ")" * 9_900,
    "brackets with a table": "SELECT city FROM cities WHERE " + "(" * 9_000 + "1=1" + ")" * 9_000,
    "columns": "SELECT " + ",".join(["1"] * 5_000),
    "columns of a table": "SELECT " + ",".join(["city"] * 3_900) + " FROM cities",
    "aggregates": "SELECT " + ",".join(["count(*)"] * 2_200) + " FROM visits",
    "a list": "SELECT city FROM cities WHERE population IN (" + ",".join(map(str, range(4_100))) + ")",
    "a list of persons": "SELECT count(*) FROM visits WHERE person IN (" + ",".join(map(str, range(4_100))) + ")",
    "a name": "SELECT " + "x" * 19_900 + " FROM cities",
    "a table": "SELECT 1 FROM " + "x" * 19_000,
    "a text": "x" * 20_001,
    "signs": "SELECT " + "- " * 9_900 + "1",
    "sums": "SELECT " + "+".join(["1"] * 9_900),
    "nots": "SELECT city FROM cities WHERE " + "NOT " * 4_900 + "true",
    "subqueries": "SELECT city FROM " + "(SELECT * FROM " * 400 + "cities" + ") t" * 400,
    "doubled": "WITH "
    + ",".join(f"a{n} AS (SELECT x.city FROM a{n - 1} x CROSS JOIN a{n - 1} y)" for n in range(1, 30))
    + " SELECT count(*) FROM a29",
    "arrays": "SELECT " + "ARRAY[" * 2_800 + "1" + "]" * 2_800,
    "comments": "/*" * 9_900 + "SELECT 1",
    "commands": "DECLARE c CURSOR WITH HOLD FOR " * 640 + "SELECT 1",
    "prepared": "PREPARE a AS " * 1_500 + "SELECT 1",
    "copies": "COPY (" * 1_150 + "SELECT 1" + ") TO STDOUT" * 1_150,
    "a number": "SELECT " + "9" * 19_900,
    "too long": "SELECT " + ",".join(["1"] * 50_000),
}


@pytest.mark.full
@pytest.mark.parametrize("name", BROAD)
def test_broad_deep_and_long_statements(world: World, name: str) -> None:
    before = world.server.charges()
    for way in (simple, cursor, http_query):
        begun = time.monotonic()
        found = way(world, BROAD[name])
        assert found.errors and not found.rows, way.__name__
        assert all(state.startswith((*CLASSES, "57014")) for state, _ in found.errors), found.errors
        assert all(own_words(said, BROAD[name]) and len(said) < 1000 for _, said in found.errors), found.errors
        assert time.monotonic() - begun < 30
    assert world.server.charges() == before


@pytest.mark.full
def test_stacked_statements_pass_one_by_one(world: World) -> None:
    """In the simple protocol the first error ends the text; the extended one and HTTP take one statement."""
    with world.raw() as raw:
        assert raw.kinds(query("SELECT 1; SELECT person FROM visits; SELECT 2")) == "T D C 42501"
        assert raw.kinds(query("BEGIN; COPY cities TO PROGRAM 'id'; COMMIT")) == "C 42501"
        assert raw.status == "E" and raw.kinds(query("SELECT 1")) == "25P02"
        raw.ask(query("ROLLBACK"))
        assert raw.kinds(parse("", "SELECT 1; SELECT 2"), SYNC) == "42601"
        hostile = b"1; DROP TABLE cities; SELECT * FROM visits --"
        for sql in ("SELECT $1::text", "SELECT city FROM cities WHERE city = $1"):
            replies = raw.ask(parse("", sql), bind("", "", (hostile,)), execute(), SYNC)
            assert [reply.row for reply in replies if reply.kind == "D"] == ([[hostile]] if "::" in sql else [])
        assert raw.kinds(parse("", "SELECT $1::int4"), bind("", "", (hostile,)), execute(), SYNC) == "1 22P02"
        assert raw.kinds(parse("", "SELECT city FROM cities LIMIT $1"), bind("", "", (hostile,)), SYNC)[:4] != "1 2 "
    status, answer = world.post("/v1/query", {"sql": "SELECT 1; SELECT 2"})
    assert (status, answer["error"]["sqlstate"]) == (400, "0A000")


@pytest.mark.full
def test_nul_bytes_end_nothing(world: World) -> None:
    with world.raw() as raw:
        assert raw.kinds(b"Q" + (4 + 30).to_bytes(4, "big") + b"SELECT 1\0; SELECT * FROM visi\0") == "08P01"
        replies = raw.kinds(parse("", "SELECT $1::text"), bind("", "", (b"a\0b",)), execute(), SYNC)
        assert replies == "1 22021"
    status, _ = world.post("/v1/query", {"sql": "SELECT 1\0"})
    assert status == 400


@pytest.mark.full
def test_a_name_that_hides_a_table_widens_no_rights(world: World) -> None:
    before = world.server.charges()
    assert simple(world, "WITH visits AS (SELECT city FROM cities) SELECT city FROM visits LIMIT 1").rows
    assert world.server.charges() == before
    found = simple(world, "WITH cities AS (SELECT * FROM visits) SELECT count(*) AS n FROM cities")
    assert len(found.rows) == 1 and world.server.charges() == before + 1  # of persons: with noise, and charged


# ---- time and memory

# Allowed, and too much: each ends in time, and whoever comes next is answered.
BOMBS = [
    "SELECT count(*) FROM people_released a, people_released b, people_released c, people_released d",
    "SELECT DISTINCT a.name || b.name || c.name AS x FROM people_released a, people_released b, people_released c",
    "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_proc d WHERE a.attnum + d.pronargs = 77",
    "SELECT string_agg(a.attname || b.attname || c.attname, '') FROM pg_attribute a, pg_attribute b, pg_attribute c",
    "WITH a0 AS (SELECT name AS n FROM people_released), "
    + ", ".join(f"a{n} AS (SELECT n || n AS n FROM a{n - 1})" for n in range(1, 31))
    + " SELECT max(n) AS n FROM a30",
    "WITH a0 AS (SELECT relname::text AS x FROM pg_class), "
    + ", ".join(f"a{n} AS (SELECT x || x AS x FROM a{n - 1})" for n in range(1, 41))
    + " SELECT max(length(x)) FROM a40",
    "SELECT 1 WHERE 1 IN (" + ",".join(map(str, range(9_000))) + ")",
]
SMALL_BOMBS = [
    "SELECT len(range(1000000000))", "SELECT repeat('x', 1000000000)", "SELECT lpad('x', 1000000000)",
    "SELECT rpad(city, 1000000000, 'x') FROM cities", "SELECT repeat(city, 1000000000) FROM cities",
    "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))", "SELECT list_aggregate(range(1000000000), 'sum')",
    "SELECT generate_series(1, 100000000000)", "SELECT count(*) FROM generate_series(1, 100000000000)",
    "SELECT regexp_replace(city, '^(a+)+$', 'b') FROM cities", "SELECT 1e1000000", "SELECT 1e1000000 FROM cities",
    "SELECT 10::numeric ^ 100000", "SELECT factorial(100000)", "SELECT format('%1000000000s', 'x')",
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t",
    "SELECT interval '999999999999 years' * 99999999", "SELECT 1 << 2147483647 << 2147483647 FROM cities",
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("sql", SMALL_BOMBS, ids=lambda sql: sql[:40])
def test_bombs_that_are_not_even_lit(world: World, sql: str) -> None:
    refused(world, sql, (simple, cursor, http_query))


@pytest.mark.full
@pytest.mark.parametrize("sql", BOMBS, ids=range(len(BOMBS)))
def test_bombs_end_in_time_with_the_server_alive(world: World, sql: str) -> None:
    before, memory, begun = world.server.charges(), world.resident, time.monotonic()
    with world.raw() as raw:
        raw.ask(query("SET statement_timeout = 1000"))
        found = [reply.fields["C"] for reply in raw.ask(query(sql)) if reply.kind == "E"]
        assert found and found[0] in ("57014", "53200", "54000", "54001", "58000"), found
        assert time.monotonic() - begun < 15  # a second to describe, one to run, three until a worker is killed
        raw.ask(query("RESET statement_timeout"))
        assert raw.kinds(query("SELECT 1")) == "T D C"
    world.works()
    assert world.server.charges() == before and world.resident < memory + 64


# ---- what is told of others

NAMES = ("persons", "events", "people_released", "rows_released", "greek_cities", "kinds", "Odd Näme")


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT string_agg(relname, ',') FROM pg_class",
        "SELECT string_agg(table_name, ',') FROM information_schema.tables",
        "SELECT string_agg(table_name || column_name, ',') FROM information_schema.columns",
        "SELECT string_agg(table_name, ',') FROM information_schema.table_privileges",
        "SELECT string_agg(relname, ',') FROM pg_stat_user_tables",
        "SELECT string_agg(tablename, ',') FROM pg_tables",
        "SELECT string_agg(viewname, ',') FROM pg_views",
        "SELECT string_agg(typname, ',') FROM pg_type",
        "SELECT string_agg(conname, ',') FROM pg_constraint",
        "SELECT string_agg(indexname, ',') FROM pg_indexes",
        "SELECT string_agg(description, ',') FROM pg_description",
        "SELECT string_agg(n::regclass::text, ',') FROM (SELECT generate_series(16000, 17000)::oid AS n) s",
        "SELECT string_agg(n::regtype::text, ',') FROM (SELECT generate_series(16000, 17000)::oid AS n) s",
        "SELECT string_agg(pg_get_constraintdef(n), ',') FROM (SELECT generate_series(16000, 17000)::oid AS n) s",
        "SELECT string_agg(pg_get_viewdef(n), ',') FROM (SELECT generate_series(16000, 17000)::oid AS n) s",
        "SELECT string_agg(to_regclass(n)::text, ',') FROM (VALUES ('persons'), ('events'), ('kinds')) s(n)",
        "SELECT string_agg(query, ',') FROM pg_stat_activity WHERE usename <> current_user",
        "SELECT string_agg(name, ',') FROM pg_prepared_statements",
        "SELECT string_agg(name, ',') FROM pg_cursors",
    ],
)
def test_the_catalog_tells_of_no_table_that_a_role_may_not_ask(world: World, sql: str) -> None:
    with world.raw(OTHER, OTHER_PASSWORD) as raw:
        replies = raw.ask(query(sql))
    told = b" ".join(reply.body for reply in replies if reply.kind == "D").decode(errors="replace")
    told = told.replace("rows of persons: ", "")  # what a comment says of every private table
    assert not [name for name in NAMES if re.search(rf"\b{name}\b", told)], told


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'NAME'::regclass", "SELECT 'NAME'::regclass::oid", "SELECT has_table_privilege('NAME', 'SELECT')",
        "SELECT has_column_privilege('NAME', 'x', 'SELECT')", "SELECT pg_relation_size('NAME')",
        "SELECT obj_description('NAME'::regclass)", "SELECT col_description('NAME'::regclass, 1)",
        "SELECT pg_get_serial_sequence('NAME', 'x')", "SELECT count(*) FROM \"NAME\"", "SELECT * FROM NAME",
        "SELECT to_regclass('NAME')", "COPY NAME TO STDOUT", "EXPLAIN SELECT count(*) FROM NAME",
        "SELECT count(*) FROM public.NAME", "SELECT NAME.x FROM cities", "SELECT city FROM cities JOIN NAME ON true",
    ],
)  # fmt: skip
def test_a_table_that_is_not_ones_own_is_as_one_that_is_not_there(world: World, sql: str) -> None:
    told = []
    with world.raw(OTHER, OTHER_PASSWORD) as raw:
        for name in ("persons", "qersons"):
            replies = raw.ask(query(sql.replace("NAME", name)))
            told.append([(reply.kind, reply.body.decode(errors="replace").replace(name, "x")) for reply in replies])
    assert told[0] == told[1]


def test_sizes_and_statistics_tell_no_number_of_rows(world: World) -> None:
    """The tables have 2,000 and 8,000 rows."""
    with world.raw() as raw:
        for sql in (
            "SELECT reltuples, relpages, relallvisible FROM pg_class WHERE relname IN ('visits', 'persons')",
            "SELECT n_live_tup, n_dead_tup, seq_scan, n_tup_ins FROM pg_stat_user_tables",
            "SELECT pg_relation_size('visits'), pg_total_relation_size('visits'), pg_table_size('persons')",
            "SELECT pg_database_size(current_database())",
            "SELECT obj_description('visits'::regclass), col_description('visits'::regclass, 1)",
        ):
            rows = [reply.row for reply in raw.ask(query(sql)) if reply.kind == "D"]
            numbers = {int(cell) for row in rows for cell in row if cell is not None and re.fullmatch(rb"\d+", cell)}
            assert not {number for number in numbers if number > 0}, (sql, numbers)


def test_explain_shows_a_plan_and_no_data(world: World) -> None:
    with world.raw() as raw:
        plans = []
        for person in (7, 7_000_000):  # one who is there, one who is not
            replies = raw.ask(query(f"EXPLAIN VERBOSE SELECT count(*) AS n FROM visits WHERE person = {person}"))
            assert not any(reply.kind == "E" for reply in replies), replies
            plans.append([reply.body.replace(str(person).encode(), b"?") for reply in replies if reply.kind == "D"])
    texts = [[re.sub(rb"^.{6}", b"", line) for line in plan] for plan in plans]
    assert texts[0] == texts[1] and texts[0]


def test_budgets_records_and_metrics_of_others(world: World) -> None:
    token = world.tokens[OTHER]
    assert simple(world, "SELECT avg(cost) AS secret_alias FROM visits").rows
    _, budget = world.post("/v1/budget", None, token)
    assert budget["principal"] == OTHER and budget["spent"]["epsilon"] == 0
    _, records = world.post("/v1/audit?limit=1000", None, token)
    assert {record["principal"] for record in records["records"]} <= {OTHER}
    status, _ = world.post("/v1/audit?principal=analyst", None, token)
    assert status == 403
    assert world.post("/metrics", None, token)[0] == 403
    with world.raw(OTHER, OTHER_PASSWORD) as raw:
        (_, row, _) = raw.ask(query("SHOW sqlanon.budget"))
        assert row.row[0] == OTHER.encode()


def test_secrets_and_literals_are_in_no_log(world: World) -> None:
    marker = "Zaphod17"
    with world.raw() as raw:
        raw.ask(query(f"SELECT count(*) AS n FROM visits WHERE ward = '{marker}'"))
        raw.ask(query(f"SELECT '{marker}', $${marker}$$, E'{marker}'"))
        raw.ask(query(f"ATTACH '{marker}'"))
        raw.ask(parse("", "SELECT city FROM cities WHERE city = $1"), bind("", "", (marker.encode(),)), execute(), SYNC)
    world.post("/v1/query", {"sql": "SELECT city FROM cities WHERE city = $1", "parameters": [marker]})
    folder = world.server.folder
    logs = (folder / "log").read_text() + (folder / "policy.audit.jsonl").read_text()
    for secret in (marker, PASSWORD, OTHER_PASSWORD, *world.tokens.values()):
        assert secret not in logs and json.dumps(secret)[1:-1] not in logs
    assert "attach ?" in logs


def test_every_answer_is_written_down_and_charged_once(world: World) -> None:
    """Through each door another statement: one charge, and one record of it with its cost; asked again, none."""
    for number, way in enumerate(WAYS):
        sql = f"SELECT sum(cost) AS s FROM visits WHERE cost < {number + 31}"
        before, written = world.server.charges(), len(world.log)
        found = way(world, sql)
        assert found.rows and not found.errors, (way.__name__, found.errors)
        spends = "explain" not in way.__name__
        assert world.server.charges() == before + spends, way.__name__
        records = world.log[written:]
        assert [record["epsilon"] > 0 for record in records].count(True) == spends, way.__name__
        assert records[-1]["decision"] == "answered" and records[-1]["tables"] == ["visits"]
        way(world, sql)
        assert world.server.charges() == before + spends, way.__name__


def test_wrong_tokens_are_counted_in_the_log_and_do_not_fill_it(world: World) -> None:
    def logins() -> list[dict[str, object]]:
        lines = (world.server.folder / "policy.audit.jsonl").read_text(encoding="utf-8").splitlines()
        return [entry for entry in map(json.loads, lines) if entry.get("event") == "login" and entry["door"] == "http"]

    before = len(logins())
    for number in range(60):
        assert world.post("/v1/query", {"sql": "SELECT 1"}, f"guess{number}")[0] == 401
    refused = [entry for entry in logins()[before:] if entry["decision"] == "refused"]
    assert 1 <= len(refused) <= 3 and {entry["principal"] for entry in refused} == {""}
    assert world.post("/v1/budget", None)[0] == 200
    assert [entry["principal"] for entry in logins() if entry["decision"] == "answered"][-1] == world.server.user
