"""Trackers, differences and averages: they work on plain SQL, and within the budget they fail here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, policy, world

from sqlanon.errors import BudgetExhausted, SqlanonError

# Table X: what three sums give away by their differences is one person's mark each.
MARKS = [("Amy", "F", "CS", 96), ("Bob", "M", "CS", 88), ("Cid", "M", "EE", 71), ("Dan", "M", "CS", 64)]
MARKS += [("Eve", "F", "EE", 99), ("Fay", "F", "EE", 83), ("Gus", "M", "EE", 90), ("Hal", "M", "CS", 75)]
COLUMNS = {"users": {"user_id": "BIGINT", "sex": "TEXT", "field": "TEXT", "mark": "INTEGER"}}
ALL, NO_AMY, NO_EVE = (
    f"SELECT SUM(mark) FROM users WHERE {where}"
    for where in ("TRUE", "NOT (sex = 'F' AND field = 'CS')", "NOT (field = 'EE' AND sex = 'F' AND mark > 90)")
)


def table_x(folder: Path, **budget: Any) -> World:
    rows = [
        {"user_id": place, "sex": sex, "field": field, "mark": mark}
        for place, (_, sex, field, mark) in enumerate(MARKS)
    ]
    tables = {"users": {"columns": {"mark": {"low": 0, "high": 100}}}}
    limits = {"statement": {"epsilon": 1.0, "delta": 1e-6}, "principal": {"epsilon": 10.0, "delta": 1e-4}} | budget
    wanted = policy(tables=tables, principals={"analyst": {}}, rows=1, budget=limits)
    return world(folder, {"users": rows}, given=wanted, columns=COLUMNS)


def test_a_tracker_reads_two_marks_from_plain_sql_and_none_from_the_gateway(tmp_path: Path) -> None:
    here = table_x(tmp_path)
    whole, without_amy, without_eve = (here.raw(sql)[0][0] for sql in (ALL, NO_AMY, NO_EVE))
    assert (whole - without_amy, whole - without_eve) == (96, 99)
    noisy = [here.gate.answer(sql) for sql in (ALL, NO_AMY, NO_EVE)]
    assert sum(answer.cost.epsilon for answer in noisy) == pytest.approx(3.0)
    for part in here.prepare(ALL).parts:
        (mechanism,) = part.noise.atoms
        assert mechanism is not None
        assert mechanism.scale >= 100  # the difference of two answers is uncertain by more than a mark can be


def guesses(here: World, wrong: int) -> tuple[int, int]:
    """How often a tracker names the mark to within five, of as many tries as the budget pays."""
    tries = hits = 0
    try:
        while True:
            salted = f" AND mark <> {1000 + tries}"  # a new text each time, or the answer is the old one
            first, second = (here.gate.answer(sql + salted).rows[0][0] for sql in (ALL, NO_AMY))
            tries, hits = tries + 1, hits + (abs(float(first) - float(second) - wrong) <= 5)
    except BudgetExhausted:
        return tries, hits


def test_averaging_ends_with_the_budget(tmp_path: Path) -> None:
    """Ten epsilon of five differences each: their mean is still uncertain by more than sixty marks."""
    here = table_x(tmp_path)
    tries, hits = guesses(here, 96)
    assert tries == 5
    assert hits < tries
    with pytest.raises(BudgetExhausted):
        here.gate.answer("SELECT COUNT(*) FROM users WHERE mark <> 2000")


def test_the_same_question_has_the_same_answer(tmp_path: Path) -> None:
    here = table_x(tmp_path)
    answers = [here.gate.answer(ALL) for _ in range(20)]
    assert len({answer.rows for answer in answers}) == 1
    assert here.spent == pytest.approx(1.0)


def test_small_epsilons_buy_nothing_more(tmp_path: Path) -> None:
    """A hundred questions at a hundredth of epsilon are a hundred times as noisy each: the mean is worse than one."""
    here = table_x(tmp_path)
    (one,), (small,) = here.prepare(ALL).parts, here.prepare(ALL, epsilon=0.01).parts
    assert small.noise.atoms[0] is not None
    assert one.noise.atoms[0] is not None
    assert small.noise.atoms[0].scale == pytest.approx(100 * one.noise.atoms[0].scale)
    assert small.noise.cost.epsilon == pytest.approx(0.01)


def test_a_set_of_one_and_its_complement_look_alike(tmp_path: Path) -> None:
    here = table_x(tmp_path)
    for where in ("sex = 'F' AND field = 'CS'", "user_id = 0", "mark = 96", "user_id = 12345", "FALSE"):
        (part,) = here.prepare(f"SELECT SUM(mark) FROM users WHERE {where}").parts
        assert part.noise.atoms[0] is not None
        assert part.noise.atoms[0].scale == pytest.approx(100.0)
        ((value,),) = here.rows(f"SELECT SUM(mark) FROM users WHERE {where}")
        assert value >= 0


def test_a_failed_statement_stays_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = table_x(tmp_path)

    def broken(*_: Any) -> Any:
        raise RuntimeError("the value 96 is out of range")

    monkeypatch.setattr(here.spy, "prepared", broken)
    monkeypatch.setattr(here.spy, "query", broken)
    with pytest.raises(SqlanonError) as error:
        here.gate.answer(ALL)
    assert "96" not in str(error.value)
    assert error.value.__cause__ is None
    assert here.spent == pytest.approx(1.0)
