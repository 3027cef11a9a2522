"""Engines: temporary tables, listings, errors without values, and that importing one engine does not need another."""

from __future__ import annotations

import pytest
from conftest import Database
from sqlglot import exp

from sqlanon.engines import connect
from sqlanon.errors import EngineError, SourceError


def test_temporary_tables_come_and_go(database: Database) -> None:
    engine = database.engine
    engine.create_temporary("sqlanon_x", exp.select("1 AS one"))
    engine.create_temporary("sqlanon_x", exp.select("2 AS two"))
    assert engine.query(exp.select("two").from_("sqlanon_x")) == [(2,)]
    engine.load_temporary("sqlanon_y", ["a", "b"], [("1", 'quo"te'), ("2", "tab\tnew\nline\\N"), ("3", "Ünïcode")])
    found = engine.query(exp.select("a", "b").from_("sqlanon_y").order_by("a"))
    assert found == [("1", 'quo"te'), ("2", "tab\tnew\nline\\N"), ("3", "Ünïcode")]
    engine.load_temporary("sqlanon_y", ["a"], [])
    assert engine.query(exp.select("a").from_("sqlanon_y")) == []
    engine.drop_temporary(["sqlanon_x", "sqlanon_y"])
    engine.drop_temporary([])
    with pytest.raises(SourceError):
        engine.query(exp.select("a").from_("sqlanon_y"))


def test_a_users_table_of_the_same_name_is_left_alone(database: Database) -> None:
    database.table("sqlanon_classes_1", {"a": "TEXT"}, [{"a": "mine"}])
    database.engine.create_temporary("sqlanon_classes_1", exp.select("1 AS one"))
    assert database.engine.query(exp.select("*").from_("sqlanon_classes_1")) == [(1,)]
    database.engine.drop_temporary(["sqlanon_classes_1"])
    database.engine.drop_temporary(["sqlanon_classes_1"])
    assert database.fetch("SELECT a FROM sqlanon_classes_1") == [("mine",)]


def test_columns_know_their_types(database: Database) -> None:
    kinds = {"i": "INTEGER", "n": "NUMERIC(10, 2)", "d": "DATE", "t": "TIMESTAMP", "x": "TEXT", "b": "BOOLEAN"}
    database.table("t", kinds, [])
    found = {item.name: item for item in database.engine.columns(exp.select("*").from_("t"))}
    assert {name for name, item in found.items() if item.numeric} == {"i", "n"}
    assert {name for name, item in found.items() if item.temporal} == {"d", "t"}


def test_tables_are_listed_as_a_policy_writes_them(database: Database) -> None:
    database.table("plain", {"a": "TEXT"}, [])
    database.table("with.dot", {"a": "TEXT"}, [])
    database.run("CREATE SCHEMA other")
    database.run("CREATE TABLE other.t (a TEXT)")
    assert {"plain", '"with.dot"', "other.t"} <= set(database.engine.tables())


def test_errors_carry_no_values(database: Database) -> None:
    database.table("t", {"a": "TEXT"}, [{"a": "secret value"}])
    tree = exp.select(exp.cast(exp.column("a"), "int")).from_("t")
    with pytest.raises(EngineError) as caught:
        database.engine.query(tree)
    assert "secret" not in str(caught.value)


def test_no_engine_for_a_scheme() -> None:
    with pytest.raises(SourceError, match="no engine for 'mysql://'"):
        connect("mysql://host/db")


def test_memory_limit_must_be_an_amount() -> None:
    with pytest.raises(EngineError, match="not an amount of memory"):
        connect(memory_limit="lots")
