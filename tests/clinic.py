"""A small clinic with a gateway, for the tests of its commands."""

from __future__ import annotations

from pathlib import Path

import duckdb
from click.testing import CliRunner, Result

from sqlanon.cli import main

POLICY = """
gateway:
  database: clinic.duckdb
  unit: {table: patients, key: patient}
  tables:
    patients:
      columns:
        name: hidden
        born: {low: 1920, high: 2020}
        "Straße \\"日本\\"": {keys: ["Ä", "B"]}
    visits:
      unit: patient
      columns: {cost: {low: 0, high: 100}}
    tests:
      link: {table: visits, on: {visit_no: visit}}
    wards: {public: true}
  rows: 10
  answer_time: 0
  budget:
    statement: {epsilon: 2, delta: 1e-6, default: 1}
    principal: {epsilon: 3, delta: 1e-4, period: year}
"""
TWO = POLICY + "  principals: {alice: {}, bob: {tables: [visits]}}\n"
DATA = '''
CREATE TABLE patients (patient INTEGER PRIMARY KEY, name TEXT, born INTEGER, "Straße ""日本""" TEXT, ward TEXT);
INSERT INTO patients SELECT i, 'P' || i, 1930 + i % 80, CASE WHEN i % 4 = 0 THEN 'Ä' ELSE 'B' END, 'w' || i % 3
FROM range(400) AS t(i);
CREATE TABLE visits (visit INTEGER PRIMARY KEY, patient INTEGER, cost DOUBLE, day DATE);
INSERT INTO visits SELECT i, i % 400, i % 90, DATE '2025-01-01' + CAST(i % 300 AS INT) FROM range(800) AS t(i);
CREATE TABLE tests (visit_no INTEGER, kind TEXT);
INSERT INTO tests SELECT i % 800, 'kind ' || i % 2 FROM range(1000) AS t(i);
CREATE TABLE wards (ward TEXT PRIMARY KEY, beds INTEGER);
INSERT INTO wards SELECT 'w' || i, 10 * i FROM range(3) AS t(i);
'''


def make(folder: Path) -> None:
    """Data, a policy and a new ledger."""
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(DATA)
    (folder / "policy.yml").write_text(POLICY, encoding="utf-8")
    assert run("budget", "init", str(folder / "policy.yml")).exit_code == 0


def run(*args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(args), input=stdin)


def ask(sql: str, *args: str, stdin: str | bytes | None = None) -> Result:
    return run("query", "policy.yml", sql, *args, stdin=stdin)
