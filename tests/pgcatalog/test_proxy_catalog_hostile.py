"""The catalog under attack: what it refuses, what a principal sees of others, and that errors are our own words."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from conftest import TESTS, examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_proxy_catalog import TABLES

from sqlanon.errors import Refused, SqlanonError
from sqlanon.pgcatalog import CatalogAnswer, Metadata, PgCatalog, RoleInfo
from sqlanon.pgcatalog.database import MetadataDatabase
from sqlanon.pgcatalog.functions import FUNCTIONS
from sqlanon.pgcatalog.kinds import FACTS
from sqlanon.pgcatalog.relations import FORBIDDEN, RELATIONS
from sqlanon.pgwire.rows import data_rows
from sqlanon.pgwire.types import KNOWN
from sqlanon.sqlfront.limits import MAX_TEXT

FOLDER = TESTS / "catalog"
HOSTILE = [line for line in (FOLDER / "hostile.txt").read_text().splitlines() if not line.startswith("#")]
# Words that only an engine or a parser would say.
ENGINES = re.compile(
    r"duckdb|sqlglot|binder error|catalog error|candidate|macro|fn_\d|memory\.main|line \d+", re.IGNORECASE
)


@pytest.fixture(scope="module")
def catalog() -> Iterator[PgCatalog]:
    made = PgCatalog(Metadata("demo", TABLES, (RoleInfo("ann"), RoleInfo("bob"))), timeout=10)
    yield made
    made.close()


def value(answer: CatalogAnswer) -> Any:
    (row,) = answer.table.to_pylist()
    return row["c0"]


def own_words(message: str, sql: str) -> bool:
    """Whether nothing in a message is an engine's; names that the statement itself has may be in it."""
    return all(found.lower() in sql.lower() for found in ENGINES.findall(message))


def test_the_list_is_long() -> None:
    assert len(HOSTILE) > 130


@pytest.mark.parametrize("sql", HOSTILE, ids=lambda text: text[:50])
def test_hostile_statements_are_refused(catalog: PgCatalog, sql: str) -> None:
    begun = time.monotonic()
    with pytest.raises(SqlanonError) as caught:
        catalog.answer(sql, "ann")
    assert own_words(str(caught.value), sql)
    assert caught.value.sqlstate != "XX000"
    assert time.monotonic() - begun < 30
    # Describe refuses as well, or what it lets through is harmless until it runs.
    try:
        catalog.describe(sql, principal="ann")
    except SqlanonError as error:
        assert own_words(str(error), sql)


def test_the_database_is_locked(catalog: PgCatalog) -> None:
    catalog.answer("SELECT 1", "ann")
    connection = catalog._databases["ann"]._connection
    for statement in (
        "SET enable_external_access = true", "SET lock_configuration = false", "ATTACH '/tmp/x.duckdb'",
        "COPY (SELECT 1) TO '/tmp/sqlanon_x.csv'", "SELECT * FROM read_text('/etc/passwd')", "INSTALL httpfs",
        "LOAD httpfs", "SELECT * FROM '/etc/passwd'",
    ):  # fmt: skip
        with pytest.raises(Exception, match=r"(?i)disabled|locked|not allowed|permission|cannot|does not exist"):
            connection.execute(statement).fetchall()


@pytest.mark.parametrize("key", sorted(RELATIONS))
def test_every_relation_is_answered_and_shows_nothing_of_others(catalog: PgCatalog, key: str) -> None:
    name = key.split(".")[1]
    if name in FORBIDDEN:
        with pytest.raises(SqlanonError, match="permission denied"):
            catalog.answer(f"SELECT * FROM {key}", "ann")
        return
    answer = catalog.answer(f"SELECT * FROM {key}", "ann")
    assert [column.name for column in answer.columns] == [column for column, _ in RELATIONS[key].columns]
    assert "secret" not in str(answer.table.to_pylist())
    if name in ("pg_class", "pg_attribute", "tables", "columns", "pg_description", "pg_constraint"):
        assert "secret" in str(catalog.answer(f"SELECT * FROM {key}", "bob").table.to_pylist())
    for batch in answer.table.to_batches():
        data_rows(batch, answer.columns, (0,))  # every value can be sent


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n::regclass::text FROM (SELECT generate_series(16300, 17300) AS n) s WHERE pg_table_is_visible(n)",
        "SELECT string_agg(oid::regclass::text, ',') FROM (SELECT generate_series(16300, 17300) AS oid) s",
        "SELECT string_agg(oid::regtype::text, ',') FROM (SELECT generate_series(16300, 17300) AS oid) s",
        "SELECT string_agg(format_type(oid, -1), ',') FROM (SELECT generate_series(16300, 17300)::oid AS oid) s",
        "SELECT string_agg(obj_description(oid), ',') FROM (SELECT generate_series(16300, 17300)::oid AS oid) s",
        "SELECT string_agg(col_description(oid, 1), ',') FROM (SELECT generate_series(16300, 17300)::oid AS oid) s",
        "SELECT string_agg(pg_get_indexdef(oid), ',') FROM (SELECT generate_series(16300, 17300)::oid AS oid) s",
        "SELECT string_agg(pg_get_constraintdef(oid), ',') FROM (SELECT generate_series(16300, 17300)::oid AS oid) s",
    ],
)
def test_functions_show_nothing_of_others(catalog: PgCatalog, sql: str) -> None:
    assert "secret" not in str(catalog.answer(sql, "ann").table.to_pylist())
    if "visible" not in sql:
        assert "secret" in str(catalog.answer(sql, "bob").table.to_pylist())


@pytest.mark.parametrize("sql", ["SELECT to_regclass('secret_table')", "SELECT to_regtype('secret_table')"])
def test_names_of_others_do_not_exist(catalog: PgCatalog, sql: str) -> None:
    assert value(catalog.answer(sql, "ann")) is None
    assert value(catalog.answer(sql, "bob")) == "secret_table"


@pytest.mark.parametrize("sql", ["SELECT * FROM secret_table", "SELECT 'secret_table'::regclass"])
def test_errors_tell_nothing_of_others(catalog: PgCatalog, sql: str) -> None:
    """What exists for another fails just as what exists for nobody."""
    told = []
    for name in ("secret_table", "nobody_table"):
        with pytest.raises(Refused) as caught:
            catalog.answer(sql.replace("secret_table", name), "ann")
        told.append((str(caught.value).replace(name, "x"), caught.value.sqlstate, caught.value.position))
    assert told[0] == told[1]


def test_data_and_catalog_do_not_mix(catalog: PgCatalog) -> None:
    with pytest.raises(Refused, match="catalog and data cannot be mixed") as caught:
        catalog.answer("SELECT * FROM pg_class c JOIN people p ON true", "ann")
    assert caught.value.sqlstate == "0A000"
    assert caught.value.position == len("SELECT * FROM pg_class c JOIN ") + 1


def test_describe_runs_nothing(catalog: PgCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetadataDatabase, "run", lambda *_: pytest.fail("a statement was run"))
    begun = time.monotonic()
    columns, kinds = catalog.describe(
        "SELECT count(*) FROM pg_class a, pg_class b, pg_class c, pg_class d, pg_class e WHERE a.relname = $1",
        principal="ann",
    )
    assert [column.type.name for column in columns] == ["int8"] and kinds == (19,)
    assert time.monotonic() - begun < 5


def test_a_statement_ends_in_time(catalog: PgCatalog) -> None:
    begun = time.monotonic()
    joined = "pg_attribute a, pg_attribute b, pg_attribute c, pg_proc d"
    bomb = f"SELECT count(*) FROM {joined} WHERE a.attnum + d.pronargs = 77"
    with pytest.raises(SqlanonError) as caught:
        catalog.answer(bomb, "ann", timeout=0.5)
    assert caught.value.sqlstate == "57014" and time.monotonic() - begun < 10
    assert value(catalog.answer("SELECT count(*) FROM pg_am", "ann")) == 7


def test_a_statement_can_be_interrupted(catalog: PgCatalog) -> None:
    import threading

    timer = threading.Timer(0.5, catalog.interrupt)
    timer.start()
    with pytest.raises(SqlanonError) as caught:
        catalog.answer("WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x FROM t) SELECT max(x) FROM t", "ann")
    timer.join()
    assert caught.value.sqlstate == "57014"


def test_large_answers_are_refused(catalog: PgCatalog) -> None:
    with pytest.raises(SqlanonError) as caught:
        catalog.answer("SELECT a.attname FROM pg_attribute a, pg_attribute b", "ann")
    assert caught.value.sqlstate == "54000"


def test_long_chains_are_answered(catalog: PgCatalog) -> None:
    """A driver asks for the origin of each column of a result with a UNION as long as the result is wide.

    The gateway answers at most 100 columns; the longest chain here is what fits into a statement.
    """
    rows = " UNION ALL ".join(f"SELECT {number} AS oid, {number} AS attnum" for number in range(450))
    sql = f"SELECT count(*) FROM ({rows}) v"
    assert 0.9 * MAX_TEXT < len(sql) <= MAX_TEXT
    assert value(catalog.answer(sql, "ann")) == 450


@pytest.mark.full
def test_parameters(catalog: PgCatalog) -> None:
    assert value(catalog.answer("SELECT $1", "ann", ["a"])) == "a"
    assert value(catalog.answer("SELECT $1::int", "ann", ["42"])) == 42
    assert value(catalog.answer("SELECT $1", "ann", [42], types=[23])) == 42
    assert value(catalog.answer("SELECT $1::text", "ann", [None])) is None
    assert value(catalog.answer("SELECT $1 + 0.5", "ann", [Decimal("1.25")])) == "1.75"
    sql = "SELECT relname FROM pg_class WHERE relname = $1 AND oid = $2"
    people = value(catalog.answer("SELECT 'people'::regclass::oid", "ann"))
    assert value(catalog.answer(sql, "ann", ["people", people])) == "people"
    assert value(catalog.answer(sql, "ann", ["people", str(people)])) == "people"
    for sql, values in (("SELECT $1", []), ("SELECT 1", ["a"]), ("SELECT $2::int", [1, 2]), ("SELECT $1::int", ["x"])):
        with pytest.raises(SqlanonError) as caught:
            catalog.answer(sql, "ann", values)
        assert caught.value.sqlstate in ("42P02", "08P01", "42P18", "22P02")


def test_settings(catalog: PgCatalog) -> None:
    given = {"TimeZone": "Europe/Berlin", "application_name": "it's"}
    sql = "SELECT current_setting('timezone'), setting FROM pg_settings WHERE name = 'application_name'"
    (row,) = catalog.answer(sql, "ann", settings=given).table.to_pylist()
    assert list(row.values()) == ["Europe/Berlin", "it's"]


TEXTS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=40)
NAMES = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=20)


@settings(max_examples=examples(150))
@given(text=TEXTS, name=NAMES)
@example(text="it's \\' \\\\ -- /* $1 */ ;", name='A "b" c')
def test_literals_and_names_are_kept(catalog: PgCatalog, text: str, name: str) -> None:
    """Case, quotes and Unicode, both for constants and through the database."""
    literal, quoted = "'" + text.replace("'", "''") + "'", '"' + name.replace('"', '""') + '"'
    for sql in (
        f"SELECT {literal} AS {quoted}",
        f"SELECT {quoted} FROM (SELECT {literal}::text AS {quoted}) AS {quoted} WHERE {quoted}.{quoted} = {literal}",
        f"SELECT s.{quoted} FROM (VALUES ({literal}), (NULL)) s({quoted}) WHERE s.{quoted} IS NOT NULL",
        f"WITH {quoted} AS (SELECT lower('') || {literal} AS {quoted}) SELECT * FROM {quoted}",
    ):
        answer = catalog.answer(sql, "ann")
        assert value(answer) == text and [column.name for column in answer.columns] == [name]
    assert value(catalog.answer("SELECT x FROM (SELECT $1::text || '' AS x) s", "ann", [text])) == text


GRAMMAR = """
SELECT FROM WHERE pg_class c . , ( ) * = 'x' 1 1.5 AND OR NOT NULL :: int4 regclass oid [ ] ANY ARRAY $1 || ~ LIKE CASE
WHEN THEN ELSE END JOIN ON UNION ALL ORDER BY GROUP LIMIT WITH AS RECURSIVE lower relname E'\\n' IN EXISTS unnest count
generate_series OVER PARTITION - + / % < > VALUES LATERAL DISTINCT USING COLLATE " ; -- {} INTERVAL FILTER HAVING
"""
WORDS = st.sampled_from(GRAMMAR.split())


@settings(max_examples=examples(400))
@given(st.lists(WORDS, min_size=1, max_size=25).map(lambda words: "SELECT " + " ".join(words)))
@example("SELECT pg_class :: ARRAY")
def test_any_text_is_answered_or_refused(catalog: PgCatalog, sql: str) -> None:
    try:
        catalog.answer(sql, "ann", ["1"] if "$1" in sql else (), timeout=5)
    except SqlanonError as error:
        assert own_words(str(error), sql)


def test_the_types_are_those_of_the_wire() -> None:
    """What the protocol says of a type and what the catalog says are the same."""
    mine = {facts.type.oid: facts.type for facts in FACTS}
    for kind in KNOWN:
        if kind.element is None:
            assert (mine[kind.oid].name, mine[kind.oid].size, mine[kind.oid].array_oid) == (
                kind.name, kind.size, kind.array_oid,
            )  # fmt: skip


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_is_one_that_the_database_can_run(catalog: PgCatalog, name: str) -> None:
    for function in FUNCTIONS[name]:
        arguments = ", ".join(
            {"anyarray": "ARRAY['a']", "anyelement": "'a'::text", "int4": "1"}.get(kind, f"NULL::{_spelled(kind)}")
            for kind in function.arguments
        )
        answer = catalog.answer(f"SELECT {name}({arguments})", "ann")
        assert answer.table.num_rows == 1 and answer.columns[0].name == name


def _spelled(kind: str) -> str:
    return f'"{kind}"' if kind == "char" else kind


@pytest.mark.full
def test_no_relation_of_the_catalog_names_another_principal() -> None:
    """Of everything that can be selected, function of an oid or cast: the owner, and who asks."""
    others = [f"Other{number}" for number in range(3)]
    roles = (RoleInfo(others[0]), RoleInfo("ann"), *map(RoleInfo, others[1:]))
    many, alone = (PgCatalog(Metadata("demo", TABLES, each), timeout=30) for each in (roles, (RoleInfo("ann"),)))
    try:
        for relation in RELATIONS.values():
            if relation.name in FORBIDDEN:
                continue
            asked = f'SELECT * FROM {relation.schema}."{relation.name}"'
            found = many.answer(asked, "ann").table.to_pylist()
            assert not any(name in str(found) for name in others), relation.name
            assert found == alone.answer(asked, "ann").table.to_pylist(), relation.name  # nor how many they are
        (row,) = many.answer("SELECT usename FROM pg_user", "ann").table.to_pylist()
        assert list(row.values()) == ["ann"]
        names = many.answer("SELECT rolname FROM pg_roles ORDER BY rolname", "ann").table.to_pylist()
        assert [name for each in names for name in each.values()] == sorted(["ann", Metadata("demo", ()).owner])
        for number in range(800_000, 800_006):
            asked = f"SELECT pg_get_userbyid({number}) AS a, CAST(CAST({number} AS regrole) AS text) AS b"
            assert not any(name in str(many.answer(asked, "ann").table.to_pylist()) for name in others)
        for name in (others[0], "nobody"):
            (row,) = many.answer(f"SELECT to_regrole('\"{name}\"') IS NULL AS none", "ann").table.to_pylist()
            assert list(row.values()) == [True]
    finally:
        many.close()
        alone.close()
