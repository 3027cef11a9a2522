"""`sqlanon audit --dp`: planted bugs are found, and a gateway without them passes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gateway_world import COLUMNS, fill
from gateway_world import policy as attacked_policy
from sqlglot import exp

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.gateway import Gate
from sqlanon.gateway.answer.read_data import Data
from sqlanon.gateway.bind import bounding, core, values
from sqlanon.gateway.bind.catalog import Schema
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.price import noise
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.gateway.replay import audit_noise
from sqlanon.gateway.replay.audit_noise import Asked, NoiseAudit, audit_schema
from sqlanon.gateway.replay.fill_shapes import fill_shape
from sqlanon.gateway.replay.made_up_persons import THE_ONE, WORLDS, neighbours_of
from sqlanon.gateway.replay.schema_statements import schema_statements
from sqlanon.ledger import Ledger
from sqlanon.mechanisms import Cost, Mechanism, laplace
from sqlanon.policy.gateway import Gateway

TABLES = {
    "people": {"person": "INTEGER"},
    "visits": {"visit": "INTEGER", "person": "INTEGER", "amount": "DOUBLE", "region": "TEXT", "kind": "TEXT"},
    "bills": {"visit": "INTEGER", "cost": "INTEGER"},
    "places": {"region": "TEXT", "size": "INTEGER"},
}


def policy(**changed: Any) -> Gateway:
    given: dict[str, Any] = {
        "database": ":memory:",
        "unit": {"table": "people", "key": "person"},
        "tables": {
            "people": {},
            "visits": {
                "unit": "person",
                "columns": {"amount": {"low": 0, "high": 100}, "kind": {"keys": ["a", "b", "c"]}},
            },
            "bills": {"link": {"table": "visits", "on": "visit"}, "columns": {"cost": {"low": 0, "high": 50}}},
            "places": {"public": True, "columns": {"size": {"low": 0, "high": 9}}},
        },
        "rows": 3,
        "groups": 2,
        "minimum_group": 2,
        "budget": {"statement": {"epsilon": 1.0, "delta": 1e-6}, "principal": {"epsilon": 3.0, "delta": 1e-5}},
    }
    return Gateway.model_validate(given | changed)


@pytest.fixture(scope="module")
def schema() -> Iterator[Schema]:
    engine = connect(":memory:", read_only=False)
    fill(engine, {}, TABLES)
    yield schema_of(engine, policy())
    engine.close()


STATEMENTS = {
    "count": "SELECT COUNT(*) FROM visits",
    "sum": "SELECT SUM(amount) FROM visits",
    "keys": "SELECT kind, COUNT(*) FROM visits GROUP BY kind",
    "regions": "SELECT region, COUNT(DISTINCT person) FROM visits GROUP BY region",
    "joined": "SELECT COUNT(*) FROM visits v JOIN visits w ON v.person = w.person",
}


def audited(schema: Schema, *names: str, runs: int = 400, count: int = 0, **how: Any) -> NoiseAudit:
    asked = [Asked(STATEMENTS[name], "analyst", "file") for name in names]
    return audit_schema(how.pop("given", policy()), schema, asked, runs=runs, count=count, **how)


def said(report: NoiseAudit) -> str:
    return "; ".join([*report.violations, *(text for each in report.statements for text in each.violations)])


@pytest.mark.full
def test_a_sound_gateway_passes(schema: Schema) -> None:
    report = audited(schema, *STATEMENTS, count=8, runs=600)
    assert said(report) == ""
    answered = [each for each in report.statements if each.shift is not None]
    assert len(answered) > 7
    # The person who is made up is the worst that there is: what a statement may move by is reached.
    by_name = dict(zip(STATEMENTS, report.statements, strict=False))
    for name in ("count", "sum", "joined"):
        shift = by_name[name].shift
        assert shift is not None
        assert shift.moved >= 0.99 * shift.reach, name
    assert 0 < by_name["count"].proven <= 1.0


@pytest.mark.full
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_sound_gateway_passes_with_either_noise(schema: Schema, mechanism: str) -> None:
    given = policy(mechanism=mechanism, accounting="zcdp" if mechanism == "gaussian" else "basic")
    assert said(audited(schema, "count", "regions", given=given)) == ""


def test_a_sensitivity_that_is_too_small(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    true = noise.sensitivity
    monkeypatch.setattr(noise, "sensitivity", lambda *given: max(1, true(*given) - 1))
    assert "moves by 3, and its noise is made for 2" in said(audited(schema, "count"))


def test_noise_that_is_too_small(schema: Schema) -> None:
    """The reach is right, and the mechanism draws a tenth of what it should."""
    source = Mechanisms(laplace=lambda reach, epsilon: replace(laplace(reach, 10 * epsilon), cost=Cost(epsilon)))
    report = audited(schema, "count", runs=2000, mechanisms=source)
    assert "prove a larger epsilon" in said(report) or "more noise is drawn" in said(report)
    (only,) = report.statements
    assert only.proven > only.claimed.epsilon


def test_a_list_of_keys_from_the_data(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(self: Data, asked: core.Core) -> Any:
        query = asked.rows.select(core.key_tree(asked.keys[0]), copy=True).distinct()
        return sorted(self.engine.query(query), key=str)

    monkeypatch.setattr(Data, "keys", keys)
    assert "groups that always appear depend on the data" in said(audited(schema, "keys"))


def test_a_budget_that_is_spent_twice(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is made noisy twice, as where a CTE is evaluated for each of its readers; one draw is charged."""
    once = Data.noisy

    def twice(self: Data, *given: Any) -> Any:
        once(self, *given)
        return once(self, *given)

    monkeypatch.setattr(Data, "noisy", twice)
    assert "more noise is drawn than is charged" in said(audited(schema, "count"))


def test_a_charge_that_is_not_kept(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """A principal may go on for ever: what was reserved is given back."""
    reserve = Ledger.reserve

    def forgetful(self: Ledger, who: str, cost: Cost, limits: Any, **given: Any) -> Any:
        left = reserve(self, who, cost, limits, **given)
        self.grant(who, cost if not cost.rho else Cost(cost.epsilon, cost.delta), by="bug", reason="bug")
        return left

    monkeypatch.setattr(Ledger, "reserve", forgetful)
    report = audited(schema, "count", "sum", "joined")
    assert report.violations == ("a principal spends more than the policy allows",)


def test_not_a_number(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are not held to their bounds: NaN and infinity reach the sum."""
    for module in (core, values):
        monkeypatch.setattr(module, "clamp", lambda tree, *_: tree)
    assert "it fails on some rows, after it was charged" in said(audited(schema, "sum"))


def test_an_answer_that_is_not_a_number(schema: Schema) -> None:
    def broken(reach: int, epsilon: float) -> Mechanism:
        return replace(laplace(reach, epsilon), add_noise=lambda values: [math.nan for _ in values])  # type: ignore[misc]

    assert "not a finite number" in said(audited(schema, "count", mechanisms=Mechanisms(laplace=broken)))


def reused(reach: int, epsilon: float) -> Mechanism:
    """The noise of a call is that of the call before."""
    made = laplace(reach, epsilon)

    def add_noise(values: Sequence[int]) -> list[int]:
        kept = KEPT.setdefault((reach, epsilon, len(values)), made.add_noise([0] * len(values)))
        return [value + drawn for value, drawn in zip(values, kept, strict=True)]

    return replace(made, add_noise=add_noise)


def shared(reach: int, epsilon: float) -> Mechanism:
    """One draw for all integers of a call."""
    made = laplace(reach, epsilon)

    def add_noise(values: Sequence[int]) -> list[int]:
        (drawn,) = made.add_noise([0])
        return [value + drawn for value in values]

    return replace(made, add_noise=add_noise)


KEPT: dict[tuple[int, float, int], list[int]] = {}


@pytest.mark.parametrize("broken", [reused, shared])
def test_noise_that_is_used_twice(schema: Schema, broken: Any) -> None:
    KEPT.clear()
    report = audited(schema, "keys", mechanisms=Mechanisms(laplace=broken))
    assert "noise is used more than once" in said(report)


def test_no_noise_at_all(schema: Schema) -> None:
    nothing = Mechanisms(laplace=lambda reach, epsilon: replace(laplace(reach, epsilon), add_noise=list))
    assert "no noise is added" in said(audited(schema, "count", mechanisms=nothing))


def test_rows_that_are_bounded_before_a_join(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """K rows of each side are K squared behind the join."""

    def unbounded(self: bounding._Statement, most: int, content: Sequence[str]) -> None:
        self.add("bounded", bounding._select(bounding._columns([*self.keys, *content]), "base"), kept=False)

    monkeypatch.setattr(bounding._Statement, "bound_rows", unbounded)
    assert "and its noise is made for 3" in said(audited(schema, "joined"))


def test_a_bound_that_is_read_from_the_data(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest value takes the place of the declared bound, in the noise as in the sum."""
    prepare = Gate.prepare

    def told(self: Gate, *given: Any, **options: Any) -> Any:
        query = exp.select(exp.Max(this=exp.column("amount"))).from_("visits").where("amount < 1e9")
        largest = float(self.engine.query(query)[0][0])
        tables = dict(self.policy.tables)
        columns = dict(tables["visits"].columns)
        columns["amount"] = columns["amount"].model_copy(update={"low": 0, "high": largest})
        tables["visits"] = tables["visits"].model_copy(update={"columns": columns})
        self.catalog = replace(self.catalog, policy=self.policy.model_copy(update={"tables": tables}))
        return prepare(self, *given, **options)

    monkeypatch.setattr(Gate, "prepare", told)
    assert "depend" in said(audited(schema, "sum"))


def test_a_bound_that_the_statement_reads(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    def clamped(tree: exp.Expr, low: float, high: float) -> exp.Expr:
        largest = exp.select(exp.Max(this=exp.column("amount"))).from_("visits").where("amount < 1e9").subquery()
        return exp.Least(
            this=exp.Greatest(this=tree.copy(), expressions=[exp.Literal.number(low)]), expressions=[largest]
        )

    for module in (core, values):
        monkeypatch.setattr(module, "clamp", clamped)
    assert said(audited(schema, "sum"))


# ---- what is replayed


def test_neighbours_differ_by_one_person_alone(schema: Schema) -> None:
    for world in WORLDS:
        made = neighbours_of(policy(), schema, world)
        own = {row["visit"] for row in made.one["visits"] if row["person"] == THE_ONE}
        assert len(own) > policy().rows
        assert made.other["visits"] == [row for row in made.one["visits"] if row["person"] != THE_ONE]
        assert made.other["bills"] == [row for row in made.one["bills"] if row["visit"] not in own]
        assert made.other["places"] == made.one["places"]
        assert {row["person"] for row in made.one["people"]} - {row["person"] for row in made.other["people"]} == {1}


def test_constraints_hold_on_made_up_rows() -> None:
    engine = connect(":memory:", read_only=False)
    columns = COLUMNS | {"orders": COLUMNS["orders"] | {"order_id": "BIGINT PRIMARY KEY"}}
    columns["visits"] = columns["visits"] | {"note": "TEXT, UNIQUE (user_id, note)"}
    fill(engine, {}, columns)
    given = attacked_policy()
    found = neighbours_of(given, schema_of(engine, given), "mixed").one
    orders = [row["order_id"] for row in found["orders"]]
    assert len(orders) == len(set(orders)) > 5
    both = [(row["user_id"], row["note"]) for row in found["visits"] if row["user_id"] is not None]
    assert len(both) == len(set(both)) > 5
    engine.close()


def test_statements_of_the_schema_are_different_and_the_same_again(schema: Schema) -> None:
    from sqlanon.gateway.bind.catalog import Catalog

    catalog = Catalog(policy(), schema)
    found = schema_statements(catalog, "analyst", 40)
    assert len(set(found)) == len(found) == 40
    assert found == schema_statements(catalog, "analyst", 40)
    assert found != schema_statements(catalog, "analyst", 40, seed=1)
    assert any("JOIN" in sql for sql in found) and any("EXISTS" in sql for sql in found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits WHERE amount > 7 AND kind = 'a'",
        "SELECT kind, SUM(amount) FROM visits GROUP BY 1 ORDER BY 2 DESC LIMIT 5",
        "SELECT QUANTILE_CONT(amount, 0.25) FROM visits WHERE kind LIKE 'a%'",
        "EXPLAIN SELECT AVG(cost) * 2 FROM bills",
    ],
)
def test_a_shape_becomes_a_statement_that_is_answered(schema: Schema, tmp_path: Path, sql: str) -> None:
    with audit_noise._gate(
        policy(), schema, neighbours_of(policy(), schema, "mixed").one, tmp_path, "one", Mechanisms()
    ) as gate:
        shape = gate.prepare(sql, "analyst").shape
        assert "?" in shape
        filled = fill_shape(gate, shape, "analyst")
        assert filled is not None and "?" not in filled
        assert gate.prepare(filled, "analyst").parts
        assert fill_shape(gate, "SELECT ? FROM (", "analyst") is None


# ---- the command


POLICY = """
gateway:
  database: clinic.duckdb
  unit: {table: people, key: person}
  tables:
    people: {}
    visits: {unit: person, columns: {amount: {low: 0, high: 100}}}
  rows: 3
  budget: {statement: {epsilon: 1, delta: 1e-6}, principal: {epsilon: 9, delta: 1e-4}}
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    engine = connect(str(tmp_path / "clinic.duckdb"), read_only=False)
    tables = {name: TABLES[name] for name in ("people", "visits")}
    fill(engine, {}, tables)
    engine.close()
    (tmp_path / "policy.yml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_reads_log_and_file(clinic: Path) -> None:
    line = {"kind": "dp", "shape": "SELECT COUNT(*) FROM visits WHERE amount > ?", "principal": "analyst"}
    (clinic / "policy.audit.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line | {"kind": "plain"}) + "\n")
    (clinic / "asked.sql").write_text("SELECT SUM(amount) FROM visits; -- twice\nSELECT secret FROM visits;\n")
    options = ["audit", "--dp", "policy.yml", "--statements", "asked.sql", "--random", "2", "--runs", "200"]
    found = CliRunner().invoke(main, options)
    assert found.exit_code == 0, found.output
    assert "5 statements (1 of the log, 2 of the file, 2 of the schema)" in found.output
    assert "SELECT SUM(amount) FROM visits" in found.output and "no violation" in found.output


def test_the_command_fails_on_a_violation(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "sensitivity", lambda *_: 1)
    (clinic / "asked.sql").write_text("SELECT COUNT(*) FROM visits")
    options = ["audit", "--dp", "policy.yml", "--statements", "asked.sql", "--random", "0", "--runs", "200"]
    found = CliRunner().invoke(main, options)
    assert found.exit_code == 1
    assert "VIOLATION in SELECT COUNT(*) FROM visits" in found.output
    assert "moves by 3, and its noise is made for 1" in found.output


def test_options_of_the_noise_need_dp(clinic: Path) -> None:
    found = CliRunner().invoke(main, ["audit", "policy.yml", "--random", "3"])
    assert found.exit_code == 2
    assert "add --dp" in found.output


def test_principals_without_noise_are_refused(schema: Schema) -> None:
    given = policy(principals={"carol": {"controls": True}}, controls={"query_set_size": 5})
    with pytest.raises(Exception, match="no principal of the policy is answered with noise"):
        audit_schema(given, schema)
