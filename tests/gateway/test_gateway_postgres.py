"""Statements as clients of PostgreSQL write them: texts, arrays, names, and errors with PostgreSQL's codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Database
from gateway_world import EXACT, World, policy, world

from sqlanon.engines import connect
from sqlanon.errors import Refused
from sqlanon.gateway.bind.schema import schema_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = world(tmp_path_factory.mktemp("postgres"))
    yield found
    found.close()


def rows(made: World, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    return list(made.gate.answer(sql, parameters=parameters, dialect="postgres").rows)


def code(made: World, sql: str) -> str:
    with pytest.raises(Refused) as error:
        made.gate.answer(sql, dialect="postgres")
    return error.value.sqlstate


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"E'tab\tquote\'s ''\\ \u00fc \xc3\xbc \101 \U0001F388'", "tab\tquote's '\\ ü ü A 🎈"),
        (r"E'\uD83D\uDE00'", "😀"),
        ("$$it's \\ $1$$", "it's \\ $1"),
        ("$tag$ $$ $tag$", " $$ "),
        ("'two' -- a note\n 'parts'", "twoparts"),
        ("E'two'\n'parts'", "twoparts"),
        (r"U&'d\0061t\+000061 \\'", "data \\"),
        (r"U&'d!0061t' UESCAPE '!'", "dat"),
        ("'back\\slash\\n'", "back\\slash\\n"),
    ],
)
def test_texts(made: World, written: str, text: str) -> None:
    assert rows(made, f"SELECT {written}") == [(text,)]
    assert rows(made, f"SELECT region FROM regions WHERE region || {written} = 'R0' || $1", text) == [("R0",)]
    # Of persons too: the statement that reads them is the same, so that it is answered from what is kept.
    asked = "SELECT COUNT(*) FROM visits WHERE region || {} = note"
    plain = rows(made, asked.format("'" + text.replace("'", "''") + "'"))
    spent = made.spent
    assert rows(made, asked.format(written)) == plain
    assert made.spent == spent


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (r"E'\000'", "22021"),
        (r"E'a\xff'", "22021"),
        (r"E'\ud800'", "42601"),
        (r"E'\u12'", "22025"),
        (r"E'\U00110000'", "42601"),
        (r"U&'\0000'", "42601"),
        (r"U&'\d800'", "42601"),
        (r"U&'\12'", "42601"),
        ("U&'a' UESCAPE 'ab'", "42601"),
        ("'two' 'parts'", "42601"),
        ("E'a'\n'b\\'", "42601"),
        ("$$" + "x" * 10_001 + "$$", "22021"),
        ("B'101'", "0A000"),
        ("X'1F'", "0A000"),
        ("E'open", "42601"),
        ("$a$ open $b$", "42601"),
    ],
    ids=lambda given: ascii(given[:30]),
)
def test_texts_that_are_none(made: World, written: str, expected: str) -> None:
    for sql in (f"SELECT {written} FROM regions", f"SELECT COUNT(*) FROM visits WHERE note = {written}"):
        assert code(made, sql) == expected


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT COUNT(*), count(age), sum(age) FROM visits", "count count sum"),
        ("SELECT size::text, 'x'::text, (size + 1)::int, size + 1, 'a', size ^ 2 FROM regions",
         "size text int4 ?column? ?column? ?column?"),
        ("SELECT DATE_TRUNC('month', seen), COUNT(*) FROM visits GROUP BY 1", "date_trunc count"),
        ("SELECT power(size, 2), pow(size, 2), ceiling(size), trim(region), char_length(region), substr(region, 1) "
         "FROM regions", "power pow ceiling btrim char_length substr"),
        ("SELECT CASE WHEN size > 1 THEN 1 END, CASE WHEN size > 1 THEN 'a' ELSE region END, true FROM regions",
         "case region ?column?"),
        ("SELECT * FROM (SELECT region, region FROM regions) t", "region region"),
        ("SELECT region, region FROM regions UNION SELECT country, region FROM regions", "region region"),
        ("SELECT r.*, p.* FROM regions r JOIN published p USING (region)",
         "region country size region persons"),
        ("SELECT size > 1, size IN (1, 2), NOT size = 1, region LIKE 'R%' FROM regions",
         "?column? ?column? ?column? ?column?"),
        ("SELECT count(*) FILTER (WHERE size > 1), row_number() OVER (ORDER BY 1) FROM regions GROUP BY size",
         "count row_number"),
    ],
)  # fmt: skip
def test_names_of_columns(made: World, sql: str, names: str) -> None:
    assert made.gate.describe(sql, "analyst", dialect="postgres").columns == tuple(names.split())
    assert made.gate.answer(sql, dialect="postgres").columns == tuple(names.split())


def test_names_of_columns_elsewhere(made: World) -> None:
    assert made.gate.answer("SELECT COUNT(*), COUNT(age) FROM visits").columns == ("count", "count_1")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT country, COUNT(*) FROM regions", "42803"),
        ("SELECT country, region FROM regions GROUP BY country", "42803"),
        ("SELECT * FROM regions GROUP BY country", "42803"),
        ("SELECT country FROM regions HAVING size > 1", "42803"),
        ("SELECT COUNT(*) FROM regions ORDER BY size", "42803"),
        ("SELECT country || region FROM regions GROUP BY country", "42803"),
        ("SELECT region, COUNT(*) FROM visits", "42803"),
        ("SELECT country FROM regions GROUP BY", "42601"),
        ("SELECT COUNT(*) FROM visits GROUP BY", "42601"),
        ("SELECT", "0A000"),
        ("SELECT FROM visits", "0A000"),
    ],
)
def test_groups(made: World, sql: str, expected: str) -> None:
    assert code(made, sql) == expected


def test_what_groups_hold(made: World) -> None:
    with pytest.raises(
        Refused, match=r'column "r\.country" must appear in the GROUP BY clause or be used in an aggregat'
    ):
        rows(made, "SELECT r.country, COUNT(*) FROM regions r")
    sql = "SELECT country || '!', COUNT(*), rank() OVER (ORDER BY country || '!') FROM regions GROUP BY country || '!'"
    assert sorted(rows(made, sql)) == [("A!", 2, 1), ("B!", 1, 2), ("C!", 1, 3)]
    assert rows(made, "SELECT upper(country) FROM regions GROUP BY country ORDER BY lower(country) LIMIT 1") == [("A",)]


def test_date_trunc_is_a_timestamp(made: World) -> None:
    found = made.gate.describe("SELECT date_trunc('month', seen), COUNT(*) FROM visits GROUP BY 1", "analyst")
    assert found.types == ("date", "int8")
    sql = "SELECT date_trunc('month', seen), COUNT(*) FROM visits GROUP BY 1"
    assert made.gate.describe(sql, "analyst", dialect="postgres").types == ("timestamp", "int8")


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("region = ANY(ARRAY['R0', 'R9'])", "R0 R9"),
        ("region = ANY('{R0,\"R9\",NULL}')", "R0 R9"),
        ("region = SOME(ARRAY['R0']::text[])", "R0"),
        ("region = ANY('{R1}'::varchar[])", "R1"),
        ("region <> ALL(ARRAY['R0', 'R9'])", "R1 R2"),
        ("region <> ALL('{R0,NULL}')", ""),
        ("size = ANY('{1,4}')", "R0 R9"),
        ("size = ANY(ARRAY['1', '4']::int[])", "R0 R9"),
        ("size = ANY('{}')", ""),
        ("size <> ALL('{}')", "R0 R1 R2 R9"),
        ("size = ANY(NULL)", ""),
        ("NOT (size = ANY(ARRAY[1, 2, 3]))", "R9"),
        ("size = '1'", "R0"),
        ("size IN ('1', 2)", "R0 R1"),
        ("size BETWEEN ' 2 ' AND '+3'", "R1 R2"),
        ("size > 0 = 'yes'", "R0 R1 R2 R9"),
    ],
)
def test_conditions(made: World, condition: str, found: str) -> None:
    asked = f"SELECT region FROM regions WHERE {condition} ORDER BY 1"
    assert [each for (each,) in rows(made, asked)] == found.split()
    exact = made.exact(f"SELECT COUNT(*) FROM visits JOIN regions USING (region) WHERE {condition}", dialect="postgres")
    assert len(exact) == 1


@pytest.mark.parametrize(
    ("parameter", "found"),
    [(["R0", "R9"], "R0 R9"), ([], ""), (None, ""), (["R1", None], "R1"), (("R1",), "R1")],
)
def test_arrays_as_parameters(made: World, parameter: object, found: str) -> None:
    sql = "SELECT region FROM regions WHERE region = ANY($1) ORDER BY 1"
    told = made.gate.describe(sql, "analyst", dialect="postgres")
    assert told.parameters == ("text[]",)
    prepared = made.gate.prepare(sql, "analyst", [parameter], kinds=["text[]"], dialect="postgres")
    assert [each for (each,) in made.gate.answer_prepared(prepared, "analyst").rows] == found.split()


def test_types_of_arrays(made: World) -> None:
    sql = (
        "SELECT COUNT(*) FROM visits JOIN regions USING (region) "
        "WHERE size = ANY($1) AND income <> ALL($2) AND age = ANY($3::int2[])"
    )
    assert made.gate.describe(sql, "analyst", dialect="postgres").parameters == ("int4[]", "float8[]", "int2[]")
    sql = "SELECT COUNT(*) FROM visits WHERE age = ANY($1)"
    filled = made.prepare(sql, parameters=[[20, 21]], kinds=["int[]"], dialect="postgres")
    listed = made.prepare("SELECT COUNT(*) FROM visits WHERE age IN (20, 21)", dialect="postgres")
    assert [part.cache_key for part in filled.parts] == [part.cache_key for part in listed.parts]
    for given in ([1.5], ["a"], [[1]], "1", [2**70]):
        with pytest.raises(Refused):
            made.prepare(sql, parameters=[given], kinds=["int[]"], dialect="postgres")
    with pytest.raises(Refused) as error:
        made.prepare(sql, parameters=[list(range(1001))], kinds=["int[]"], dialect="postgres")
    assert error.value.sqlstate == "54000"
    twice = "SELECT COUNT(*) FROM visits WHERE age = ANY($1) OR age = ANY($2)"
    with pytest.raises(Refused, match="elements"):
        made.prepare(twice, parameters=[list(range(600))] * 2, kinds=["int[]"] * 2, dialect="postgres")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("region = ANY(SELECT region FROM regions)", "0A000"),
        ("region = ANY((SELECT region FROM regions))", "0A000"),
        ("region <> ALL(SELECT region FROM visits)", "0A000"),
        ("region = ANY(note)", "0A000"),
        ("region = ANY(ARRAY[note])", "0A000"),
        ("region = ANY(ARRAY[ARRAY['a']])", "0A000"),
        ("region = ANY(ARRAY(SELECT note FROM visits))", "0A000"),
        ("region = ANY(string_to_array(note, ','))", "0A000"),
        ("region LIKE ANY(ARRAY['a'])", "0A000"),
        ("region = ALL(ARRAY['a'])", "0A000"),
        ("region <> ANY(ARRAY['a'])", "0A000"),
        ("age > ANY(ARRAY[1])", "0A000"),
        ("ANY(ARRAY['a']) = region", "0A000"),
        ("age = ALL('{1}', '{2}')", "0A000"),
        ("age <> ALL('{1}', '{2}')", "0A000"),
        ("age <> ALL()", "0A000"),
        ("region = ANY('{{a},{b}}')", "22P02"),
        ("region = ANY('a')", "22P02"),
        ("age = ANY('{a}')", "22P02"),
        ("age = ANY(ARRAY['1.5'])", "22P02"),
        ("region = ANY(ARRAY[1])", "42883"),
        ("region = ANY(ARRAY[1]::text[])", "42846"),
        ("age = ANY('{1}'::int[][])", "0A000"),
        ("age = ANY('{1}'::json[])", "0A000"),
        ("age = 'many'", "22P02"),
        ("age = '1_0'", "22P02"),
        ("age = '٣'", "22P02"),
        ("age = '99999999999999999999'", "22003"),
        ("income = 'NaN'", "22P02"),
        ("ok = 'o'", "22P02"),
        ("no_such_function(age) = 1", "42883"),
        ("pg_sleep(1) IS NULL", "42883"),
    ],
)
def test_conditions_that_are_refused(made: World, condition: str, expected: str) -> None:
    seen, spent = len(made.spy.seen), made.spent
    assert code(made, f"SELECT COUNT(*) FROM visits WHERE {condition}") == expected
    assert (len(made.spy.seen), made.spent) == (seen, spent)


def test_declared_types(made: World) -> None:
    told = made.gate.describe("SELECT region, size, size + 1, -size, min(size) OVER () FROM regions", "analyst")
    assert told.types == ("text", "int4", "int8", "int8", "int8")
    told = made.gate.describe("SELECT size FROM regions UNION SELECT CAST(1 AS BIGINT) FROM regions", "analyst")
    assert told.types == ("int8",)
    sql = "SELECT size FROM regions WHERE size = $1 AND $2 < size AND region = $3 AND size + 1 = $4"
    assert made.gate.describe(sql, "analyst").parameters == ("int4", "int4", "text", "int8")
    told = made.gate.describe("SELECT age, COUNT(*), SUM(age), AVG(age) FROM visits GROUP BY age", "analyst")
    assert told.types == ("int8", "int8", "int8", "float8")
    sql = "SELECT size, size + 1 AS more FROM regions WHERE size = $1"
    prepared = made.gate.prepare(sql, "analyst", [2], kinds=["int"])
    (batch,) = made.gate.plain_batches(prepared)
    assert [str(kind) for kind in batch.schema.types] == ["int32", "int64"]
    assert batch.to_pylist() == [{"size": 2, "more": 3}]


def test_a_table_of_another_schema_that_comes_first(postgres: Database) -> None:
    """That the key of public.users is unique says nothing of the table that the path leads to."""
    postgres.run("CREATE SCHEMA other")
    postgres.run("CREATE TABLE public.users (user_id BIGINT PRIMARY KEY)")
    postgres.run("CREATE TABLE other.users (user_id BIGINT)")
    given = policy(tables={"users": {}})
    assert ("users", "user_id") in schema_of(postgres.engine, given).unique
    postgres.engine._connection.execute("SET search_path = other, public")  # type: ignore[attr-defined]
    assert ("users", "user_id") not in schema_of(postgres.engine, given).unique


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_an_aggregate_is_called_as_it_is_written(made: World, dialect: str) -> None:
    for sql in ("SELECT STRING_AGG(note, ',') FROM visits", "SELECT string_agg(note, ',' ORDER BY age) FROM visits"):
        with pytest.raises(Refused, match=r"string_agg\(\)"):
            made.gate.answer(sql, dialect=dialect)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_comments_reach_no_engine(made: World, dialect: str) -> None:
    plain = made.prepare("SELECT COUNT(*) FROM visits WHERE age IS NULL AND ok IS TRUE", dialect=dialect)
    remarked = made.prepare(
        "SELECT /* one */ COUNT(*) FROM visits /* two */ WHERE age IS /* three */ NULL -- */ OR TRUE /*\n"
        "AND ok IS TRUE /* four */ -- five",
        dialect=dialect,
    )
    assert [part.cache_key for part in remarked.parts] == [part.cache_key for part in plain.parts]
    assert "/*" not in "".join(each.sql() for part in remarked.parts for each in part.statements) + remarked.noisy_sql
    window = "SELECT size, SUM(size) OVER (ORDER BY size ROWS 1 PRECEDING /* secret */) /* secret */ FROM regions"
    assert "secret" not in made.prepare(window, dialect=dialect).noisy_sql


def test_a_backslash_never_ends_a_text(postgres: Database, tmp_path: Path) -> None:
    """Old databases may take it for an escape: then what follows a quote in a text would be read as SQL."""
    postgres.run("ALTER ROLE CURRENT_USER SET standard_conforming_strings = off")
    try:
        engine = connect(postgres.url)
        here = world(tmp_path, engine=engine, mechanisms=EXACT, given=policy(rows=50))
        text = "\\'' OR TRUE --"
        assert here.rows(f"SELECT COUNT(*) FROM visits WHERE note = '{text}'", dialect="postgres") == [(0,)]
        here.close()
    finally:
        postgres.run("ALTER ROLE CURRENT_USER RESET standard_conforming_strings")
