"""Trackers, differences and averages: they work on plain SQL, and within the budget they fail here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, policy, world

from sqlanon.errors import BudgetExhausted, SqlanonError

# Table X of the survey: the scores of an examination, and one record that is added later.
SCORES = [("Concordia", "CS", 92), ("Simon Fraser", "EE", 91), ("Concordia", "CS", 97), ("Illinois", "CS", 96)]
ADDED = ("Illinois", "CS", 99)
COLUMNS = {"users": {"user_id": "BIGINT", "university": "TEXT", "department": "TEXT", "score": "INTEGER"}}
TARGET = "university = 'Illinois' AND department = 'CS'"
ALL = "SELECT SUM(score) FROM users WHERE TRUE"
WITHOUT = f"SELECT SUM(score) FROM users WHERE NOT ({TARGET})"
Q1, Q2, Q3 = (f"SELECT {asked} FROM users WHERE {TARGET}" for asked in ("COUNT(*)", "AVG(score)", "SUM(score)"))


def table_x(folder: Path, *added: tuple[str, str, int], **budget: Any) -> World:
    rows = [
        {"user_id": place, "university": university, "department": department, "score": score}
        for place, (university, department, score) in enumerate([*SCORES, *added], start=1)
    ]
    tables = {"users": {"columns": {"score": {"low": 0, "high": 100}}}}
    limits = {"statement": {"epsilon": 1.0, "delta": 1e-6}, "principal": {"epsilon": 10.0, "delta": 1e-4}} | budget
    wanted = policy(tables=tables, principals={"analyst": {}}, rows=1, budget=limits)
    folder.mkdir(exist_ok=True)
    return world(folder, {"users": rows}, given=wanted, columns=COLUMNS)


def test_table_x_gives_two_scores_away_to_plain_sql_and_none_to_the_gateway(tmp_path: Path) -> None:
    before, after = table_x(tmp_path / "a"), table_x(tmp_path / "b", ADDED)
    q1, q2, again, q3 = before.raw(Q1)[0][0], before.raw(Q2)[0][0], after.raw(Q1)[0][0], after.raw(Q3)[0][0]
    assert (q1, q2) == (1, 96)  # one student, and his score
    assert (again, q3 - q2) == (2, 99)  # one more, and his
    for here in (before, after):
        answers = [here.gate.answer(sql) for sql in (Q1, Q2, Q3)]
        assert sum(answer.cost.epsilon for answer in answers) == pytest.approx(3.0)
        # A count is uncertain by a person, and a sum by more than a score can be.
        for sql, least in ((Q1, 1), (Q3, 100)):
            ((mechanism,),) = (part.noise.atoms for part in here.prepare(sql).parts)
            assert mechanism is not None
            assert mechanism.scale >= least
        # An average is made of a sum and a count that share the budget: both are noisier than alone.
        scales = sorted(atom.scale for part in here.prepare(Q2).parts for atom in part.noise.atoms if atom is not None)
        assert len(scales) == 2
        assert scales[0] > 1


def test_a_tracker_reads_a_score_from_plain_sql(tmp_path: Path) -> None:
    here = table_x(tmp_path)
    assert here.raw(ALL)[0][0] - here.raw(WITHOUT)[0][0] == 96


def guesses(here: World, wrong: int) -> tuple[int, int]:
    """How often a tracker names the score to within five, of as many tries as the budget pays."""
    tries = hits = 0
    try:
        while True:
            salted = f" AND score <> {1000 + tries}"  # a new text each time, or the answer is the old one
            first, second = (here.gate.answer(sql + salted).rows[0][0] for sql in (ALL, WITHOUT))
            tries, hits = tries + 1, hits + (abs(float(first) - float(second) - wrong) <= 5)
    except BudgetExhausted:
        return tries, hits


def test_averaging_ends_with_the_budget(tmp_path: Path) -> None:
    """Ten epsilon of five differences each: their mean is still uncertain by more than sixty points."""
    here = table_x(tmp_path)
    tries, hits = guesses(here, 96)
    assert tries == 5
    assert hits < tries
    with pytest.raises(BudgetExhausted):
        here.gate.answer("SELECT COUNT(*) FROM users WHERE score <> 2000")


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
    for where in (TARGET, "user_id = 4", "score = 96", "user_id = 12345", "FALSE"):
        (part,) = here.prepare(f"SELECT SUM(score) FROM users WHERE {where}").parts
        assert part.noise.atoms[0] is not None
        assert part.noise.atoms[0].scale == pytest.approx(100.0)
        ((value,),) = here.rows(f"SELECT SUM(score) FROM users WHERE {where}")
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
