"""The dry run: made-up data of the shape of the real one, of which no row is read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from clinic import POLICY, ask, make

from sqlanon.engines import connect
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.synthetic import open_synthetic, synthetic_gate
from sqlanon.policy.files import parse_gateway


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, a policy and a new ledger, as the working directory."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    return tmp_path


@pytest.mark.full
def test_a_dry_run_needs_no_ledger_and_is_marked(clinic: Path) -> None:
    Path("policy.ledger").unlink()
    sql = "SELECT ward, count(*) AS n, sum(cost) FROM visits JOIN patients USING (patient) GROUP BY ward"
    result = ask(sql, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("SYNTHETIC DATA: ")
    assert re.search(r"^ text [1-5] ", result.stdout, re.M)  # not one certain key: noise withholds each now and then
    assert "w1" not in result.stdout
    assert "nothing was spent; asked of the real data this would spend epsilon 1" in result.stderr
    assert json.loads(ask(sql, "--dry-run", "--format", "json").stdout)["synthetic"] is True
    assert not Path("policy.ledger").exists()
    assert ask("SELECT cots FROM visits", "--dry-run").exit_code == 1


def test_a_dry_run_reads_the_catalogue_only(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement that reaches the real database describes it."""
    seen: list[str] = []
    engine = connect("clinic.duckdb")

    class Spy:
        def __init__(self, connection: Any) -> None:
            self.connection = connection

        def execute(self, sql: str, *args: Any) -> Any:
            seen.append(sql)
            return self.connection.execute(sql, *args)

        def close(self) -> None:
            self.connection.close()

    engine._connection = Spy(engine._connection)  # type: ignore[attr-defined]
    monkeypatch.setattr(
        "sqlanon.gateway.synthetic.connect", lambda url, **_: engine if url != ":memory:" else connect(url)
    )
    gate = open_synthetic(parse_gateway(POLICY, base=clinic))
    before = list(seen)
    sql = "SELECT kind, count(*), avg(cost) FROM tests JOIN visits ON visit_no = visit GROUP BY kind"
    assert gate.answer(sql, "analyst").synthetic
    folder = Path(gate.folder.name)
    gate.close()
    assert seen == before and not folder.exists()
    of_the_catalogue = r"duckdb_(constraints|tables|views)\(\)|^select current_(database|setting)\("
    assert before and all(
        text.startswith("DESCRIBE SELECT") or re.search(of_the_catalogue, text.lower()) for text in before
    )


def test_made_up_rows_fit_the_policy(clinic: Path) -> None:
    policy = parse_gateway(POLICY, base=clinic)
    engine = connect("clinic.duckdb")
    schema = schema_of(engine, policy)
    engine.close()
    gates = [synthetic_gate(policy, schema) for _ in range(2)]
    tables = ['"patients"', '"visits"', '"tests"', '"wards"']
    first, second = (
        {name: gate.engine._connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in tables}  # type: ignore[attr-defined]
        for gate in gates
    )
    assert first == second and all(first.values())
    connection = gates[0].engine._connection  # type: ignore[attr-defined]

    def value(sql: str) -> Any:
        return connection.execute(sql).fetchone()[0]

    assert value("SELECT count(*) - count(DISTINCT patient) FROM patients") == 0
    assert value("SELECT count(*) FROM visits WHERE patient NOT IN (SELECT patient FROM patients)") == 0
    assert value("SELECT count(*) FROM tests WHERE visit_no NOT IN (SELECT visit FROM visits)") == 0
    assert value("SELECT count(*) FROM visits WHERE cost NOT BETWEEN 0 AND 100") == 0
    assert value("SELECT min(born) >= 1920 AND max(born) <= 2020 FROM patients")
    assert value('SELECT list_sort(list(DISTINCT "Straße ""日本""")) FROM patients') == ["B", "Ä"]
    assert value("SELECT count(*) FROM patients JOIN wards USING (ward)") == value("SELECT count(*) FROM patients")
    for gate in gates:
        gate.close()


def test_types_of_every_kind_can_be_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("d.duckdb") as connection:
        connection.execute(
            "CREATE SCHEMA raw; CREATE TABLE raw.u (id UUID PRIMARY KEY, e ENUM ('a', 'b'), d DECIMAL(9, 2), "
            "b BOOLEAN, t TIMESTAMP, s STRUCT(a INT), h HUGEINT, f FLOAT, n INTEGER, x DATE)"
        )
    text = """
gateway:
  database: d.duckdb
  unit: {table: raw.u, key: id}
  tables:
    raw.u:
      columns:
        d: {low: 0.25, high: 0.5}
        n: {low: 0.2, high: 0.8}
        h: {low: -1e30, high: 1e30}
        t: {low: 2020-01-01, high: 2020-02-01}
        b: {keys: [true, false]}
  rows: 1
  budget: {statement: {epsilon: 1, delta: 1e-6}, principal: {epsilon: 9, delta: 1e-4}}
"""
    gate = open_synthetic(parse_gateway(text, base=tmp_path))
    for column in ("e", "b", "date_trunc('week', t)", "month(x)"):
        answer = gate.answer(f"SELECT {column} AS k, count(*), avg(d), sum(n) FROM raw.u GROUP BY 1", "analyst")
        assert len(answer.rows) >= 2, column
    gate.close()
