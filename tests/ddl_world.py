"""A small shop over which owners write SQL: a table with labels, a gateway, and a server of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from sqlanon.ddl.owner_catalog import StatementOutcome
from sqlanon.ddl.policy_store import PolicyStore
from sqlanon.ddl.run_statements import OwnerSession
from sqlanon.sqlfront.lexer import statements

ROWS = 600
LABELS = """
SECURITY LABEL FOR sqlanon ON COLUMN patients.id IS 'identifier; person';
SECURITY LABEL FOR sqlanon ON COLUMN patients.name IS 'identifier';
SECURITY LABEL FOR sqlanon ON COLUMN patients.age IS 'quasi_identifier; hierarchy age';
SECURITY LABEL FOR sqlanon ON COLUMN patients.zip IS 'quasi_identifier';
SECURITY LABEL FOR sqlanon ON COLUMN patients.disease IS 'sensitive';
"""
OPTIONS = "sqlanon.k = 5, sqlanon.t = 0.6, sqlanon.suppression_limit = 0.1, sqlanon.algorithm = full_domain"
CREATE = f"CREATE MATERIALIZED VIEW research.patients WITH ({OPTIONS}) AS SELECT * FROM patients"
GATEWAY = """
gateway:
  database: shop.duckdb
  unit: {table: patients, key: id}
  tables: {patients: {columns: {age: {low: 0, high: 100}}}}
  rows: 1
  answer_time: 0
  budget:
    statement: {epsilon: 1, delta: 1e-6, default: 0.5}
    principal: {epsilon: 100, delta: 1e-3, period: month}
  principals: {olga: {owner: true}, anna: {}, aude: {auditor: true}}
serve: {port: 0, workers: 1, policies: kept, administrators: [olga]}
"""


def fill(folder: Path) -> Path:
    database = folder / "shop.duckdb"
    with duckdb.connect(str(database)) as made:
        made.execute(
            "CREATE TABLE patients AS SELECT i AS id, 'Zzyzx ' || i AS name, 20 + i % 40 AS age, "
            "'z' || (i % 5) AS zip, 'd' || (i % 4) AS disease FROM range(?) AS t(i)", [ROWS],
        )  # fmt: skip
    return database


def session(folder: Path, **more: Any) -> OwnerSession:
    if not (folder / "shop.duckdb").exists():
        fill(folder)
    return OwnerSession(PolicyStore(folder / "kept"), str(folder / "shop.duckdb"), **more)


def run(given: OwnerSession, text: str) -> list[StatementOutcome]:
    return [given.run(statement) for statement in statements(text)]


def rows(given: OwnerSession, text: str) -> list[tuple[Any, ...]]:
    return list(run(given, text)[-1].rows)
