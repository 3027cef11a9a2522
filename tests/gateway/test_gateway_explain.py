"""EXPLAIN: three lines that tell cost, error and how many such questions are left; the plan with VERBOSE."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gateway_world import World, policy, world

from sqlanon.errors import BudgetExhausted, Refused

BUDGET = {"statement": {"epsilon": 2.0, "delta": 1e-6, "default": 1.0}, "principal": {"epsilon": 5.0, "delta": 1e-5}}
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = world(tmp_path_factory.mktemp("explain"), given=policy(budget=BUDGET))
    yield made
    made.close()


def lines(of: World, sql: str, **options: float) -> list[str]:
    return [line for (line,) in of.gate.answer(f"EXPLAIN {sql}", **options).rows]


def test_three_lines_come_first(here: World) -> None:
    assert lines(here, COUNT) == [
        "Cost: epsilon 1",
        "Expected error, in 95 of 100 cases: n ±12",
        "Left to analyst: epsilon 5, delta 1e-05: 5 such questions",
        "(EXPLAIN VERBOSE shows the plan and the SQL)",
    ]
    whole = lines(here, f"VERBOSE {COUNT}")
    assert whole[:3] == lines(here, COUNT)[:3] and any("SELECT" in line for line in whole)
    assert whole == lines(here, f"(verbose) {COUNT}") == lines(here, f"(VERBOSE true) {COUNT}")


def test_each_column_has_its_error(here: World) -> None:
    listed = "region, COUNT(*), 2 * COUNT(*) AS twice, AVG(age) AS a, 'x' AS x, SUM(visits)"
    sql = f"SELECT {listed} FROM visits GROUP BY region"
    found = lines(here, sql)
    part = here.prepare(sql).parts[0]
    pairs = zip(part.core.atoms, part.noise.atoms, strict=True)
    widths = {atom.label: mechanism for atom, mechanism in reversed(list(pairs))}
    rows, total = widths["rows"], widths["sum"]
    assert rows is not None and total is not None
    assert found[1] == (
        f"Expected error, in 95 of 100 cases: count ±{rows.half_width():g}, twice ±{2 * rows.half_width():g}, "  # type: ignore[union-attr]
        f"a depends on the data, sum ±{total.half_width():,g}"  # type: ignore[union-attr]
    )
    assert found[3].startswith("Groups of fewer than about ")
    wrapped = f'SELECT * FROM ({COUNT}) AS "virtual_table" LIMIT 1000'
    assert lines(here, wrapped)[1] == lines(here, COUNT)[1]


def test_an_error_decides_the_cost(here: World) -> None:
    found = lines(here, COUNT, error=60)
    assert found[:3] == [
        "Cost: epsilon 0.199", "Expected error, in 95 of 100 cases: n ±60",
        "Left to analyst: epsilon 5, delta 1e-05: 25 such questions",
    ]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("accounting", [{}, {"mechanism": "gaussian", "accounting": "zcdp"}])
@pytest.mark.parametrize(
    "sql",
    ["SELECT COUNT(*) FROM visits WHERE age > {}", "SELECT region, COUNT(*) FROM visits WHERE age > -{} GROUP BY 1"],
)
def test_as_many_such_questions_are_answered_as_it_says(
    tmp_path_factory: pytest.TempPathFactory, sql: str, accounting: dict[str, str]
) -> None:
    made = world(tmp_path_factory.mktemp("left"), given=policy(budget=BUDGET, **accounting))
    told = int(lines(made, sql.format(0))[2].split(": ")[-1].split(" such")[0])
    assert told > 1
    for place in range(told):
        left = int(lines(made, sql.format(place))[2].split(": ")[-1].split(" such")[0])
        assert left == told - place
        made.gate.answer(sql.format(place))
    assert lines(made, sql.format(told))[2].endswith(": 0 such questions")
    with pytest.raises(BudgetExhausted):
        made.gate.answer(sql.format(told))
    assert lines(made, sql.format(0))[0].startswith("Cost: nothing, it was answered before")
    made.close()


def test_what_costs_nothing(here: World) -> None:
    assert lines(here, "SELECT * FROM regions")[:3] == [
        "Cost: nothing; public or released tables only, answered as they are",
        "Expected error: none, no column of the answer has noise",
        "Left to analyst: epsilon 5, delta 1e-05",
    ]
    assert lines(here, "SELECT COUNT(*) FROM visits WHERE 1 = 0 LIMIT 0")[0].startswith("Cost: nothing")
    assert here.spent == 0 and not [sql for sql in here.spy.seen if "visits" in sql]


def test_a_table_to_choose_epsilon_by(here: World) -> None:
    names, rows = here.gate.choices(f"{COUNT} WHERE ward = 'W1'", "analyst")
    assert names == ["epsilon", "n ±", "questions left"]
    assert [row[0] for row in rows] == ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]
    for epsilon, error, left in rows:
        assert float(error.replace(",", "")) == here.gate.mechanisms.laplace(4, float(epsilon)).half_width()
        assert int(left) == int(5 / float(epsilon) + 1e-9)
    assert here.gate.choices("SELECT AVG(age) AS a FROM visits", "analyst")[1][0][1] == "?"
    with pytest.raises(Refused, match="this one costs nothing"):
        here.gate.choices("SELECT * FROM regions", "analyst")
    assert here.spent == 0
