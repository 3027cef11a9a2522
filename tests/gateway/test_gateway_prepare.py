"""A dashboard: recorded clicks that are paid for once, and tables that are bought for all of them together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gateway_dashboard import CLICKS, DASHBOARD, PANELS
from gateway_world import COLUMNS, EXACT, fill, people, policy, world
from test_gateway_reuse import reusing

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import BudgetExhausted, Refused
from sqlanon.gateway.replay.neighbours import compare_reads, read_core
from sqlanon.ledger import Ledger

PERSONS = 300


def spent_on(folder: Path, statements: list[str], **changed: Any) -> float:
    made = world(folder, people(PERSONS), given=reusing(**changed), name=f"{len(list(folder.iterdir()))}.ledger")
    for sql in statements:
        made.gate.answer(sql)
    made.close()
    return made_spent(made, folder)


def made_spent(made: Any, folder: Path) -> float:
    with Ledger.open(made.gate.ledger.path) as ledger:
        return float(sum(event.epsilon for event in ledger.history() if event.kind == "charge"))


@pytest.mark.full
def test_a_recorded_dashboard_costs_a_third_of_what_it_did(tmp_path: Path) -> None:
    assert len(DASHBOARD) == 40 and len(PANELS) == 10
    assert spent_on(tmp_path, CLICKS) <= 31.0 / 3


@pytest.mark.full
def test_before_it_cost_31(tmp_path: Path) -> None:
    assert spent_on(tmp_path, DASHBOARD, reuse=False) == pytest.approx(31.0)
    assert spent_on(tmp_path, DASHBOARD) == pytest.approx(10.0)


def inside_bars(folder: Path, runs: int) -> tuple[int, int]:
    """Of all numbers of the dashboard with bars, how many hold the answer without noise."""
    exact = world(folder, people(PERSONS), given=reusing(reuse=False), mechanisms=EXACT, name="exact.ledger")
    asked = [sql for sql in CLICKS if not any(word in sql for word in ("LIMIT", "HAVING", "region,"))]
    truth = {sql: exact.rows(sql) for sql in asked}
    exact.close()
    inside = numbers = 0
    made = world(folder, people(PERSONS), given=reusing(), name="first.ledger")
    for run in range(runs):
        made.gate.ledger = Ledger.create(folder / f"run{run}.ledger")
        for sql in asked:
            answer = made.gate.answer(sql, intervals=True)
            for row, right in zip(answer.rows, truth[sql], strict=True):
                held = dict(zip(answer.columns, row, strict=True))
                for name, value in zip(answer.columns, right, strict=False):
                    if f"{name}_low" in held:
                        numbers += 1
                        inside += held[f"{name}_low"] <= value <= held[f"{name}_high"]
        made.gate.ledger.close()
    made.close()
    return inside, numbers


@pytest.mark.full
def test_its_answers_are_within_their_bars(tmp_path: Path) -> None:
    inside, numbers = inside_bars(tmp_path, 1)
    assert inside >= 0.85 * numbers > 20


@pytest.mark.long
def test_its_answers_are_within_their_bars_in_95_of_100_cases(tmp_path: Path) -> None:
    inside, numbers = inside_bars(tmp_path, 200)
    print(f"{inside} of {numbers}: {inside / numbers:.4f}")
    # Numbers of one draw count several times: 10 draws of a run decide all of them.
    assert inside >= (0.95 - 2 * math.sqrt(0.95 * 0.05 / (200 * 10))) * numbers


# ---- bought together


def test_one_charge_buys_the_tables_of_all(tmp_path: Path) -> None:
    made = world(tmp_path, people(PERSONS), given=reusing(prepare={"analyst": DASHBOARD}))
    plans = made.gate.tables_to_prepare("analyst")
    cost = sum(plan.cost.epsilon for plan in plans)
    assert made.spent == 0 and cost <= 31.0 / 2.5
    left = made.gate.prepare_tables("analyst")
    assert left is not None and made.spent == pytest.approx(cost)
    assert [event.kind for event in made.gate.ledger.history()] == ["charge", "answered"]
    seen = len(made.spy.seen)
    for sql in DASHBOARD:
        assert made.gate.answer(sql).cost.epsilon == 0, sql
    assert not [text for text in made.spy.seen[seen:] if "visits" in text or "orders" in text]
    assert made.gate.prepare_tables("analyst") is None and made.spent == pytest.approx(cost)
    made.close()


def test_drill_downs_alone_share_a_table(tmp_path: Path) -> None:
    """No statement asks by ward: that it is a key follows from what they filter by."""
    listed = [f"SELECT COUNT(*), SUM(age) FROM visits WHERE ward = '{ward}'" for ward in ("W0", "W1", "W3")]
    listed += ["SELECT COUNT(*) FILTER (WHERE ward = 'W2') FROM visits"]
    made = world(tmp_path, given=reusing(prepare={"analyst": listed}))
    (plan,) = made.gate.tables_to_prepare("analyst")
    assert sorted(key for (key,) in plan.part.core.declared) == ["W0", "W1", "W2", "W3"]
    assert plan.cost.epsilon == pytest.approx(1.0 + 0.5)  # a count as the last wants it, and a sum as the others do
    made.gate.prepare_tables("analyst")
    assert [made.gate.answer(sql).cost.epsilon for sql in listed] == [0.0] * 4
    made.close()


def test_a_coarser_table_follows_from_a_finer_one_where_that_is_cheaper(tmp_path: Path) -> None:
    """Of 4 wards a sum has the variance of 4: twice the epsilon. Beside a table that has it already, it is nothing."""
    fine = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4) ward, COUNT(*) FROM visits GROUP BY ward"
    total = "SELECT COUNT(*) FROM visits"
    made = world(tmp_path, given=reusing(prepare={"analyst": [fine, total]}))
    (plan,) = made.gate.tables_to_prepare("analyst")
    assert plan.cost.epsilon == pytest.approx(4.0) and len(plan.part.core.declared) == 4
    made.gate.prepare_tables("analyst")
    assert made.gate.answer(total).cost.epsilon == 0 == made.gate.answer(fine).cost.epsilon
    made.close()
    apart = world(tmp_path, given=reusing(prepare={"analyst": [fine.replace("4)", "1)"), total]}), name="b.ledger")
    assert sum(plan.cost.epsilon for plan in apart.gate.tables_to_prepare("analyst")) == pytest.approx(2.0)
    apart.close()


def test_rows_that_no_key_stands_for_are_not_left_out(tmp_path: Path) -> None:
    """Without `complete`, a total does not follow from the wards."""
    fine = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) ward, COUNT(*) FROM visits GROUP BY ward"
    given = policy(reuse=True, prepare={"analyst": [fine, "SELECT COUNT(*) FROM visits"]})
    made = world(tmp_path, people(PERSONS), given=given)
    assert len(made.gate.tables_to_prepare("analyst")) == 2
    made.gate.prepare_tables("analyst")
    (total,) = made.rows("SELECT COUNT(*) FROM visits")[0]
    in_wards = sum(row[1] for row in made.rows(fine))
    assert total - in_wards > 80  # a quarter is in W3, which is not declared
    made.close()


@pytest.mark.full
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_what_is_prepared_reads_no_more_of_a_person_than_its_noise_is_for(tmp_path: Path, mechanism: str) -> None:
    tables = people(12)
    crowded = {**tables, "visits": tables["visits"] + [row | {"user_id": 3} for row in tables["visits"]]}
    fewer = {name: [row for row in rows if row.get("user_id") != 3] for name, rows in crowded.items()}
    fewer["items"] = [row for row in crowded["items"] if row["order_id"] != 30]
    accounting = "zcdp" if mechanism == "gaussian" else "basic"
    given = reusing(prepare={"analyst": DASHBOARD}, minimum_group=1, mechanism=mechanism, accounting=accounting)
    one, other = world(tmp_path, crowded, given=given), world(tmp_path, fewer, given=given, name="other.ledger")
    other.gate.ledger = one.gate.ledger
    plans = zip(one.gate.tables_to_prepare("analyst"), other.gate.tables_to_prepare("analyst"), strict=True)
    for mine, theirs in plans:
        assert mine.buys is not None and theirs.buys is not None and mine.cost == theirs.cost
        groups = 1 if mine.buys.core.mode == "none" else given.groups
        _, wrong = compare_reads(
            mine.buys, read_core(one.gate, mine.buys), read_core(other.gate, theirs.buys), groups=groups
        )
        assert not wrong, mine.asked.key_names()
    one.close()


def test_a_budget_that_does_not_hold_all_buys_nothing(tmp_path: Path) -> None:
    small = {"statement": {"epsilon": 4.0, "delta": 1e-6, "default": 1.0}, "principal": {"epsilon": 5.0, "delta": 0.01}}
    made = world(tmp_path, given=reusing(prepare={"analyst": DASHBOARD}, budget=small))
    seen = len(made.spy.seen)
    with pytest.raises(BudgetExhausted, match="left, the statement needs"):
        made.gate.prepare_tables("analyst")
    assert made.spent == 0 and not [text for text in made.spy.seen[seen:] if "sqlanon_unit" in text]
    made.close()


def test_what_cannot_be_prepared_is_refused(tmp_path: Path) -> None:
    for listed, said in (
        (["SELECT country, COUNT(*) FROM regions GROUP BY country"], "there is nothing to prepare for"),
        (["EXPLAIN SELECT COUNT(*) FROM visits"], "there is nothing to prepare for"),
        (["SELECT * FROM visits"], "rows of persons"),
        (["SELECT COUNT(*) FROM nowhere"], "does not exist"),
    ):
        made = world(tmp_path, given=reusing(prepare={"analyst": listed}), name=f"{abs(hash(listed[0]))}.ledger")
        with pytest.raises(Refused, match=said):
            made.gate.prepare_tables("analyst")
        with pytest.raises(Refused, match="prepares nothing for 'guest'"):
            made.gate.prepare_tables("guest")
        assert made.spent == 0
        made.close()
    for changed, said in (
        ({"prepare": {"nobody": ["SELECT 1"]}}, "who is no principal"),
        ({"prepare": {"analyst": ["SELECT 1"]}, "reuse": False}, "that are not used again"),
        ({"prepare": {"analyst": []}}, "prepare"),
        ({"prepare": ["SELECT 1"]}, "prepare"),
    ):
        with pytest.raises(ValueError, match=said):
            policy(**{"reuse": True} | changed)
    # What is prepared is no part of what an answer depends on.
    assert policy(reuse=True).fingerprint == policy(reuse=True, prepare={"analyst": ["SELECT 1"]}).fingerprint


POLICY = """\
gateway:
  database: data.duckdb
  unit: {table: users, key: user_id}
  tables:
    users: {}
    visits: {unit: user_id, columns: {ward: {keys: [W0, W1, W2, W3], complete: true}}}
  rows: 4
  answer_time: 0
  budget: {statement: {epsilon: 2, default: 1}, principal: {epsilon: 10}}
  reuse: true
  prepare:
    analyst:
      - SELECT ward, COUNT(*) FROM visits GROUP BY ward
      - SELECT COUNT(*) FROM visits WHERE ward = 'W1'
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = connect("data.duckdb", read_only=False)
    fill(engine, people(), COLUMNS)
    engine.close()
    Path("p.yml").write_text(POLICY, encoding="utf-8")

    def run(*words: str) -> str:
        return CliRunner().invoke(main, list(words)).output

    run("budget", "init", "p.yml")
    told = run("budget", "prepare", "p.yml", "--explain")
    assert told == (
        "table: rows, 4 groups, epsilon 1\n"
        "2 statements: epsilon 1 together, epsilon 2 one by one; nothing was bought; "
        "analyst has epsilon 10 left, not renewed\n"
    )
    assert run("budget", "prepare", "p.yml").endswith("one by one; analyst has epsilon 9 left, not renewed\n")
    again = run("budget", "prepare", "p.yml")
    assert again == "nothing to buy: all 2 statements follow from tables that are there\n"
    asked = run("query", "p.yml", "SELECT COUNT(*) AS n FROM visits WHERE ward = 'W1'")
    assert "it follows from what was paid for before, so it cost nothing; analyst has epsilon 9 left" in asked
