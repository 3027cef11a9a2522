"""A name in the database is never taken for one of the gateway's own, nor one table for two."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlglot
from conftest import Database
from gateway_world import EXACT, World, reopened
from sqlglot import exp

from sqlanon.errors import PolicyError, Refused, SqlanonError
from sqlanon.gateway.bind.values import UNIT
from sqlanon.policy.gateway import Gateway

ROWS = 5


def policy_of(tables: dict[str, Any], **changed: Any) -> Gateway:
    given: dict[str, Any] = {
        "database": ":memory:", "unit": {"table": "users", "key": "user_id"}, "rows": ROWS, "groups": ROWS,
        "minimum_group": 1, "answer_time": 0.0, "principals": {"analyst": {}},
        "budget": {"statement": {"epsilon": 1.0, "delta": 1e-6}, "principal": {"epsilon": 90.0, "delta": 1e-3}},
        "tables": {"users": {}, **tables},
    }  # fmt: skip
    return Gateway.model_validate(given | changed)


def opened(database: Database, folder: Path, policy: Gateway) -> World:
    return reopened(folder, database.engine, policy, EXACT, f"{uuid4().hex}.ledger")


def users(database: Database, count: int = 10) -> None:
    database.table("users", {"user_id": "BIGINT"}, [{"user_id": who} for who in range(count)])


@pytest.mark.full
@pytest.mark.parametrize("name", [UNIT, UNIT.upper(), "Sqlanon_Unit", "sqlanon_anything"])
def test_a_column_called_like_the_unit_does_not_replace_it(database: Database, tmp_path: Path, name: str) -> None:
    """1,001 rows of one person, each with another value in the column: they are 5 of the answer, not 1,001."""
    users(database)
    rows = [{"user_id": 1, name: number} for number in range(1001)] + [{"user_id": 2, name: 0}]
    database.table("visits", {"user_id": "BIGINT", name: "BIGINT"}, rows)
    try:
        here = opened(database, tmp_path, policy_of({"visits": {"unit": "user_id"}}))
    except PolicyError as error:
        assert "visits" in str(error) and name in str(error)
        return
    ((found,),) = here.rows("SELECT COUNT(*) FROM visits")
    assert found <= ROWS + 1


def test_hidden_and_public_columns_have_no_reserved_names_either(database: Database, tmp_path: Path) -> None:
    users(database)
    database.table("places", {"place": "BIGINT", UNIT: "BIGINT"}, [])
    with pytest.raises(PolicyError, match="begins with sqlanon_"):
        opened(database, tmp_path, policy_of({"places": {"public": True}}))
    with pytest.raises(PolicyError, match="begins with sqlanon_"):
        opened(database, tmp_path, policy_of({"places": {"unit": "place", "columns": {UNIT: "hidden"}}}))
    database.table("sqlanon_rows", {"user_id": "BIGINT"}, [])
    with pytest.raises(PolicyError, match="begins with sqlanon_"):
        opened(database, tmp_path, policy_of({"sqlanon_rows": {"unit": "user_id"}}))


def test_an_alias_is_no_reserved_name(database: Database, tmp_path: Path) -> None:
    users(database)
    here = opened(database, tmp_path, policy_of({}))
    for name in (UNIT, f'"{UNIT.upper()}"', "sqlanon_people"):
        with pytest.raises(Refused, match="reserved"):
            here.gate.answer(f"SELECT COUNT(*) FROM (SELECT user_id AS {name} FROM users) t")
    assert here.spent == 0


ASKED = [
    "SELECT COUNT(*), SUM({b}), COUNT(DISTINCT {b}), MEDIAN({b}) FROM {t}",
    "SELECT {a} AS {b}, COUNT(*) AS {a} FROM {t} GROUP BY {a} ORDER BY {b}",
    "SELECT {b} % 3 AS {a}, COUNT(DISTINCT {u}) AS {u}, SUM({b}) AS n FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT SUM({b}) FROM (SELECT {u}, {a}, COUNT(*) AS {b} FROM {t} GROUP BY {u}, {a}) {a}",
    "SELECT COUNT(*), SUM(x.{b}) FROM {t} x JOIN {t} y ON x.{u} = y.{u} WHERE y.{b} > 2",
    "WITH {a} AS (SELECT {u}, {b} FROM {t}) SELECT SUM({b}) FROM {a}",
]


COLUMNS = ("user_id", "region", "amount")
PEOPLE = [(who, f"R{who % 3}", number) for who in range(10) for number in range(1 + who % 7)]


@pytest.mark.full
def test_tables_and_columns_called_like_those_of_the_gateway(database: Database, tmp_path: Path) -> None:
    """The same rows, named like what the gateway's own statements name: the answers are the same, or it is refused."""
    users(database)
    plain, statements = answered(database, tmp_path, "visits", COLUMNS)
    names = own_names(statements) | {"k1", "a3", "own", "many", "core_1", "t1", "r2"}
    assert {"base", "cells", "heavy", "bounded", "present", "persons", "place", "k0", "a0", "r0", UNIT} <= names
    listed = sorted(names)
    for place in range(0, len(listed), 2):
        table, first, second, unit = (listed[(place + step) % len(listed)] for step in range(4))
        try:
            found, _ = answered(database, tmp_path, table, (unit, first, second))
        except PolicyError as error:
            assert any(name.startswith("sqlanon_") for name in (table, unit, first, second))
            assert "begins with sqlanon_" in str(error)
            continue
        assert found == plain, (table, unit, first, second)


def own_names(statements: list[exp.Expr]) -> set[str]:
    found = {node.name for tree in statements for node in tree.find_all(exp.Identifier)}
    return {name for name in found if name not in (*COLUMNS, "visits", "x", "y", "C")}


def answered(
    database: Database, folder: Path, table: str, columns: tuple[str, ...]
) -> tuple[list[list[tuple[Any, ...]]], list[exp.Expr]]:
    """The answers about a table of these names, and the statements that were run for them."""
    unit, first, second = columns
    kinds = {unit: "BIGINT", first: "TEXT", second: "BIGINT"}
    database.table(table, kinds, [dict(zip(columns, row, strict=True)) for row in PEOPLE])
    own = {"unit": unit, "columns": {second: {"low": 0, "high": 10}}}
    policy = policy_of({table: own}, rows=50, groups=50, controls={"query_set_size": 2, "overlap": 100}, principals={
        "analyst": {}, "trusted": {"controls": True},
    })  # fmt: skip
    try:
        here = opened(database, folder, policy)
        quoted = {key: f'"{name}"' for key, name in zip("tuab", (table, *columns), strict=True)}
        asked = [sql.format(**quoted) for sql in ASKED]
        exactly = ["SELECT COUNT(*), SUM({b}) FROM {t} WHERE {a} <> 'R0'".format(**quoted), asked[1]]
        told = [here.rows(sql) for sql in asked] + [here.rows(sql, principal="trusted") for sql in exactly]
        seen = [sqlglot.parse_one(text, read=database.engine.dialect) for text in here.spy.seen]
        seen += [sqlglot.parse_one(here.prepare(sql).noisy_sql, read="duckdb") for sql in asked]
        return told, seen
    finally:
        database.run(f'DROP TABLE "{table}"')


# ---- one table under two names


@pytest.mark.parametrize(
    "names", [("v", "{db}.main.v"), ("V", "main.v"), ("main.v", "{db}.v"), ("{db}.main.v", "{db}.v")]
)
def test_one_table_under_two_names_on_duckdb(tmp_path: Path, names: tuple[str, str]) -> None:
    from sqlanon.engines import connect

    database = Database(connect(":memory:"))
    users(database)
    database.table("v", {"user_id": "BIGINT"}, [{"user_id": 1}])
    ((db,),) = database.fetch("SELECT current_database()")
    one, other = (name.format(db=db) for name in names)
    for private, public in ((one, other), (other, one)):
        with pytest.raises((PolicyError, SqlanonError), match="is the same as"):
            opened(database, tmp_path, policy_of({private: {"unit": "user_id"}, public: {"public": True}}))


def test_one_table_under_two_names_on_postgres(postgres: Database, tmp_path: Path) -> None:
    users(postgres)
    postgres.table("v", {"user_id": "BIGINT"}, [{"user_id": 1}])
    ((db,),) = postgres.fetch("SELECT current_database()")
    for other in ("public.v", f"{db}.public.v"):
        with pytest.raises(SqlanonError, match="is the same as"):
            opened(postgres, tmp_path, policy_of({"v": {"unit": "user_id"}, other: {"public": True}}))


def test_a_public_view_of_a_private_table(database: Database, tmp_path: Path) -> None:
    users(database)
    database.table("visits", {"user_id": "BIGINT", "region": "TEXT"}, [])
    database.table("places", {"region": "TEXT"}, [])
    database.run("CREATE VIEW seen AS SELECT region FROM visits")
    database.run("CREATE VIEW again AS SELECT p.region FROM places p LEFT JOIN seen s ON s.region = p.region")
    database.run("CREATE VIEW known AS SELECT region FROM places")
    for name in ("seen", "again"):
        with pytest.raises(PolicyError, match="reads rows of 'visits'"):
            opened(database, tmp_path, policy_of({"visits": {"unit": "user_id"}, name: {"public": True}}))
    opened(database, tmp_path, policy_of({"visits": {"unit": "user_id"}, "known": {"public": True}}))
    database.run("DROP VIEW again; DROP VIEW seen; DROP VIEW known")


def test_a_public_partition_of_a_private_table(postgres: Database, tmp_path: Path) -> None:
    users(postgres)
    postgres.run("CREATE TABLE visits (user_id BIGINT, year INT) PARTITION BY LIST (year)")
    postgres.run("CREATE TABLE visits_1 PARTITION OF visits FOR VALUES IN (1)")
    for private, public in (("visits", "visits_1"), ("visits_1", "visits")):
        with pytest.raises(PolicyError, match="which belong to persons"):
            opened(postgres, tmp_path, policy_of({private: {"unit": "user_id"}, public: {"public": True}}))


# ---- collations


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NOCASE.NOACCENT", "de"])
@pytest.mark.parametrize("view", [False, True])
def test_units_of_duckdb_compare_bytes(tmp_path: Path, collation: str, view: bool) -> None:
    """With NOCASE, 'a' and 'A' are one value of a join and two persons of a count."""
    from sqlanon.engines import connect

    database = Database(connect(":memory:"))
    database.run(f"CREATE TABLE base_users (user_id VARCHAR COLLATE {collation})")
    database.run(f"CREATE TABLE base_visits (user_id VARCHAR COLLATE {collation}, place VARCHAR)")
    for name in ("users", "visits"):
        database.run(f"CREATE VIEW {name} AS SELECT * FROM base_{name}" if view else
                     f"ALTER TABLE base_{name} RENAME TO {name}")  # fmt: skip
    with pytest.raises(PolicyError, match="different texts as the same person"):
        opened(database, tmp_path, policy_of({"visits": {"unit": "user_id"}}))


def test_a_collation_of_the_whole_database(tmp_path: Path) -> None:
    from sqlanon.engines import connect

    database = Database(connect(":memory:"))
    users(database)
    database.run("SET default_collation = 'nocase'")
    with pytest.raises(PolicyError, match="collation"):
        opened(database, tmp_path, policy_of({}))


def test_other_columns_of_persons_compare_bytes_too(tmp_path: Path) -> None:
    from sqlanon.engines import connect

    database = Database(connect(":memory:"))
    users(database)
    database.run("CREATE TABLE visits (user_id BIGINT, place VARCHAR COLLATE NOCASE)")
    database.run("INSERT INTO visits VALUES (1, 'a'), (2, 'A'), (3, 'a'), (4, NULL)")
    database.run("CREATE TABLE places (place VARCHAR COLLATE NOCASE, size INTEGER)")
    database.run("INSERT INTO places VALUES ('a', 1), ('A', 2)")
    here = opened(database, tmp_path, policy_of({"visits": {"unit": "user_id"}, "places": {"public": True}}))
    assert here.rows("SELECT COUNT(DISTINCT place) FROM visits") == [(2,)]
    assert here.rows("SELECT COUNT(*) FROM visits WHERE place = 'a'") == [(2,)]
    assert here.rows("SELECT COUNT(*) FROM visits v JOIN places p ON v.place = p.place") == [(3,)]
    assert here.rows("SELECT place, COUNT(*) FROM visits WHERE place IS NOT NULL GROUP BY place ORDER BY place") == [
        ("A", 1), ("a", 2),
    ]  # fmt: skip
