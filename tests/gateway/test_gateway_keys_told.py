"""Constraints that the catalog tells: of both engines, and only of what a principal may see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import reopened

from sqlanon.engines import Engine, connect
from sqlanon.pgcatalog import Metadata
from sqlanon.pgcatalog.principal_view import View
from sqlanon.policy.gateway import Gateway
from sqlanon.server.catalog_metadata import metadata_of
from sqlanon.server.query_worker import tables_of

TABLES = (
    "CREATE TABLE towns (town TEXT PRIMARY KEY, mayor TEXT NOT NULL UNIQUE, size SMALLINT, area NUMERIC(8, 2))",
    "CREATE TABLE secrets (code INTEGER PRIMARY KEY)",
    "CREATE TABLE patients (id INTEGER PRIMARY KEY, town TEXT REFERENCES towns (town), code INTEGER "
    "REFERENCES secrets (code), ward INTEGER, bed INTEGER, UNIQUE (ward, bed))",
)
POLICY: dict[str, Any] = {
    "database": ":memory:",
    "unit": {"table": "patients", "key": "id"},
    "tables": {
        "towns": {"public": True, "columns": {"mayor": "hidden"}},
        "secrets": {"public": True},
        "patients": {},
    },
    "budget": {"statement": {"epsilon": 1.0, "delta": 1e-6}, "principal": {"epsilon": 9.0, "delta": 1e-3}},
    "principals": {
        "boss": {},
        "some": {"tables": ["towns", "patients"]},
        "few": {"tables": ["patients", "towns"]},
    },
    "access": [
        {"tables": ["patients"], "columns": ["bed"], "to": ["boss", "some"]},
        {"tables": ["towns"], "columns": ["town"], "to": ["boss", "some"]},
    ],
    "rows": 3,
    "answer_time": 0.0,
}


def told(engine: Engine, folder: Path) -> dict[str, View]:
    for sql in ("DROP TABLE IF EXISTS patients", "DROP TABLE IF EXISTS secrets", "DROP TABLE IF EXISTS towns", *TABLES):
        engine._connection.execute(sql)  # type: ignore[attr-defined]
    made = reopened(folder, engine, Gateway.model_validate(POLICY), None, "keys.ledger")

    class Served:
        gateway = made.gate.policy
        database_name = "db"
        located_policies = None

    metadata = metadata_of(Served(), tables_of(made.gate))  # type: ignore[arg-type]
    assert isinstance(metadata, Metadata)
    return {who: View(metadata, who) for who in POLICY["principals"]}


def keys(view: View, table: str) -> set[str]:
    return {
        f"{key.kind} {','.join(key.columns)}" + (f" {key.target.name} {','.join(key.referred)}" if key.target else "")
        for key in view.keys
        if key.entry.name == table
    }


@pytest.fixture(params=["duckdb", "postgres"])
def views(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, View]:
    if request.param == "duckdb":
        return told(connect(":memory:", read_only=False), tmp_path)
    return told(request.getfixturevalue("postgres").engine, tmp_path)


def test_keys(views: dict[str, View]) -> None:
    assert keys(views["boss"], "patients") == {"p id", "u ward,bed", "f town towns town", "f code secrets code"}
    assert keys(views["some"], "patients") == {"p id", "u ward,bed", "f town towns town"}
    assert keys(views["few"], "patients") == {"p id"}
    assert keys(views["boss"], "towns") == {"p town"}  # of the mayor nothing is told, who is hidden
    assert keys(views["few"], "towns") == set()


def test_oids_are_each_keys_own(views: dict[str, View]) -> None:
    for view in views.values():
        given = [entry.oid for entry in view.tables] + [key.oid for key in view.keys] + list(view.indexes)
        assert len(given) == len(set(given))


def test_types_and_not_null(views: dict[str, View]) -> None:
    (towns,) = (entry for entry in views["boss"].tables if entry.name == "towns")
    found = [(column.name, column.type.name, column.typmod, column.not_null) for column in towns.columns]
    assert found == [("town", "text", -1, True), ("size", "int2", -1, False), ("area", "numeric", 524294, False)]
    (patients,) = (entry for entry in views["boss"].tables if entry.name == "patients")
    assert patients.columns[0].type.name == "int4"
