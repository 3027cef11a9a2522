"""ROLLUP, CUBE and GROUPING SETS under controls: what is withheld cannot be computed from anything that is shown.

The attacker here is a linear program over persons: each has an amount of at least 0, and each group that was ever shown
is an equation. What the statement is and what SQL says of it comes from the rows in plain Python.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from test_gateway_controls import Site, exam

from sqlanon.engines import connect
from sqlanon.errors import Refused, Withheld
from sqlanon.gateway.audit_policy import audit_policy

BOUNDS = {"exams": {"columns": {"score": {"low": 0, "high": 5000}, "fee": {"low": 0, "high": 1}}}}
CONTROLS: dict[str, Any] = {"query_set_size": 3, "p_percent": 20.0, "overlap": 2, "tables": BOUNDS}
ROLLUP = "SELECT university, department, SUM(score) FROM exams WHERE id < 900 GROUP BY ROLLUP (university, department)"
CUBE = ROLLUP.replace("ROLLUP", "CUBE")
OTHERS = [exam(900 + number, "elsewhere", "none", 10) for number in range(6)]  # whom every statement leaves out
Shown = list[tuple[dict[str, Any], float]]


@pytest.fixture
def site(database: Database, tmp_path: Path) -> Iterator[Site]:
    made = Site(database, tmp_path)
    yield made
    made.closed()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Site]:
    made = Site(Database(connect(":memory:")), tmp_path)
    yield made
    made.closed()


def people(amounts: Mapping[tuple[str, str], Sequence[int]]) -> list[dict[str, Any]]:
    numbers = itertools.count()
    return [exam(next(numbers), *cell, amount) for cell, listed in amounts.items() for amount in listed]


def audit_example() -> dict[tuple[str, str], list[int]]:
    """Three groups with one person each: 1000, 1020 and 100. All others have four."""
    amounts = {(f"U{u}", f"D{d}"): [30, 28, 27, 26] for u in range(4) for d in range(4)}
    return amounts | {("U0", "D0"): [1000], ("U1", "D1"): [1020], ("U2", "D2"): [100]}


def shown_by(rows: Sequence[tuple[Any, ...]]) -> Shown:
    return [
        (
            {name: key for name, key in zip(("university", "department"), row[:2], strict=True) if key is not None},
            row[2],
        )
        for row in rows
    ]


def members(rows: Sequence[Mapping[str, Any]], where: Mapping[str, Any]) -> np.ndarray:
    return np.array([int(all(row[name] == value for name, value in where.items())) for row in rows])


def interval(
    rows: Sequence[Mapping[str, Any]], shown: Shown, where: Mapping[str, Any], known: Sequence[int] = ()
) -> tuple[float, float]:
    """What can be said of a group from all that is shown, for somebody who knows the amounts of some persons."""
    values = np.array([row["score"] for row in rows], dtype=float)
    matrix = np.array([members(rows, each) for each, _ in shown]).reshape(len(shown), len(rows))
    right = np.array([total for _, total in shown], dtype=float)
    assert (matrix @ values == right).all(), "what is shown must be right"
    bounds = [(value, value) if place in known else (0, None) for place, value in enumerate(values)]
    ends = []
    for sign in (1, -1):
        found = linprog(sign * members(rows, where), A_eq=matrix, b_eq=right, bounds=bounds)
        assert found.status in (0, 3)
        ends.append(sign * found.fun if found.status == 0 else -sign * np.inf)
    return ends[0], ends[1]


def unsafe(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[dict[str, Any], float]]:
    """Groups that break a rule, each with how far off bounds must be."""
    names = ("university", "department")
    for chosen in (names, names[:1], names[1:], ()):
        for key in dict.fromkeys(tuple(row[name] for name in chosen) for row in rows):
            where = dict(zip(chosen, key, strict=True))
            own = sorted((row["score"] for row in rows if all(row[n] == v for n, v in where.items())), reverse=True)
            lacking = 0.2 * own[0] - sum(own[2:])
            if len(own) < 3 or lacking > 0:
                yield where, max(1.0, lacking if lacking > 0 else 0.1 * sum(own))


def require_protected(rows: Sequence[Mapping[str, Any]], shown: Shown, wanted: Iterator[Any]) -> int:
    count = 0
    for where, level in wanted:
        own = float(members(rows, where) @ np.array([row["score"] for row in rows]))
        assert where not in [each for each, _ in shown]
        low, high = interval(rows, shown, where)
        assert low <= own - min(level, own) + 1e-4 and high >= own + level - 1e-4, where
        count += 1
    return count


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("statement", [ROLLUP, CUBE])
def test_three_cells_do_not_come_back_from_margins(site: Site, statement: str) -> None:
    rows = people(audit_example())
    site.exams([*rows, *OTHERS])
    gate = site.gate(**CONTROLS)
    answer = gate.answer(statement, "ann")
    shown = shown_by(answer.rows)
    assert answer.withheld >= 6 and len(shown) >= 12
    assert ({}, float(sum(row["score"] for row in rows))) in shown
    wanted = [each for each in unsafe(rows) if statement is CUBE or "department" not in each[0] or len(each[0]) == 2]
    assert require_protected(rows, shown, iter(wanted)) == 3
    # A person who is alone in a group knows it, and still not the others.
    for place, row in enumerate(rows):
        if (row["university"], row["department"]) in (("U0", "D0"), ("U1", "D1"), ("U2", "D2")):
            for where, level in wanted:
                if not members(rows, where)[place]:
                    low, high = interval(rows, shown, where, [place])
                    own = float(members(rows, where) @ np.array([each["score"] for each in rows]))
                    assert high - low >= min(level, own) > 0
    assert gate.answer(statement, "ann").cached
    assert audit_policy(gate.policy, "ann").exposures == ()


def test_plain_sql_of_the_margins_would_tell_all_three(site: Site) -> None:
    """The attacker of these tests finds what a naive answer gives away."""
    rows = people(audit_example())
    shown: Shown = []
    for chosen in (("university", "department"), ("university",), ()):
        for key in dict.fromkeys(tuple(row[name] for name in chosen) for row in rows):
            where = dict(zip(chosen, key, strict=True))
            if members(rows, where).sum() >= 3:
                shown.append((where, float(members(rows, where) @ np.array([row["score"] for row in rows]))))
    for cell, amount in ((("U0", "D0"), 1000), (("U1", "D1"), 1020), (("U2", "D2"), 100)):
        where = dict(zip(("university", "department"), cell, strict=True))
        assert interval(rows, shown, where) == pytest.approx((amount, amount))


AFTER = [
    "SELECT university, SUM(score) FROM exams WHERE id < 900 GROUP BY university",
    "SELECT department, SUM(score) FROM exams WHERE id < 900 GROUP BY department",
    "SELECT university, department, SUM(score) FROM exams WHERE id < 900 GROUP BY university, department",
    CUBE, ROLLUP,
    "SELECT NULL AS u, NULL AS d, SUM(score) FROM exams WHERE id < 900",
    "SELECT university, department, SUM(score), COUNT(*) FROM exams WHERE id < 900 "
    "GROUP BY GROUPING SETS ((university), (department))",
]  # fmt: skip


def everything(gate: Any, statements: Sequence[str]) -> tuple[Shown, int]:
    """All that is shown of sums by several statements, and how many were answered."""
    found: Shown = []
    answered = 0
    for sql in statements:
        try:
            rows = gate.answer(sql, "ann").rows
        except Withheld:
            continue
        answered += 1
        for row in rows:
            keys = {"university": None, "department": None}
            if sql == AFTER[0]:
                keys["university"] = row[0]
            elif sql == AFTER[1]:
                keys["department"] = row[0]
            else:
                keys |= {"university": row[0], "department": row[1]}
            total = row[1] if sql in AFTER[:2] else row[2]
            found.append(({name: key for name, key in keys.items() if key is not None}, float(total)))
    return found, answered


@pytest.mark.parametrize("first", [4, *(pytest.param(n, marks=pytest.mark.full) for n in (0, 1, 2, 3, 5, 6))])
def test_what_was_shown_before_or_comes_after_does_not_help(local: Site, first: int) -> None:
    rows = people(audit_example())
    local.exams([*rows, *OTHERS])
    gate = local.gate(**CONTROLS)
    order = [AFTER[first], *AFTER[:first], *AFTER[first + 1 :], *AFTER]
    shown, answered = everything(gate, order)
    assert answered >= 1
    wanted = [each for each in unsafe(rows) if len(each[0]) == 2]
    assert require_protected(rows, shown, iter(wanted)) == 3
    assert audit_policy(gate.policy, "ann").exposures == ()


@pytest.mark.full
def test_another_measure_hides_what_was_hidden_before(local: Site) -> None:
    rows = people(audit_example())
    local.exams([*rows, *OTHERS])
    gate = local.gate(**CONTROLS)
    first = {tuple(where.items()) for where, _ in shown_by(gate.answer(ROLLUP, "ann").rows)}
    counted = gate.answer(ROLLUP.replace("SUM(score)", "COUNT(*)"), "ann")
    assert {tuple(where.items()) for where, _ in shown_by(counted.rows)} <= first
    assert len(counted.rows) >= len(first) - 2
    both = gate.answer(ROLLUP.replace("SUM(score)", "AVG(score), SUM(score)"), "ann")
    assert {tuple(where.items()) for where, _ in shown_by(both.rows)} <= {
        tuple(where.items()) for where, _ in shown_by(counted.rows)
    }
    sums = shown_by([(*row[:2], row[3]) for row in both.rows])
    assert require_protected(rows, [*sums, *shown_by(gate.answer(ROLLUP, "ann").rows)],
                             iter([each for each in unsafe(rows) if len(each[0]) == 2])) == 3  # fmt: skip


@pytest.mark.full_on_postgres
def test_the_answer_is_that_of_sql(site: Site) -> None:
    """Where no group breaks a rule, nothing is hidden: keys, NULLs, GROUPING, HAVING, ORDER BY and LIMIT."""
    amounts = {(f"U{u}", f"D{d}"): [30 + u, 28, 27 + d, 26, 25] for u in range(3) for d in range(3)}
    rows = people(amounts)
    site.exams([*rows, *OTHERS])
    listed = "university, department, GROUPING(university, department) AS g, SUM(score) AS s, COUNT(*) AS n, AVG(score)"
    sql = f"SELECT {listed} FROM exams WHERE id < 900 GROUP BY CUBE (1, department) HAVING SUM(score) > 150"
    sql += " ORDER BY g, university, department LIMIT 12"
    expected = []
    for place, chosen in enumerate([(0, 1), (0,), (1,), ()]):
        for key in sorted({tuple(cell[at] for at in chosen) for cell in amounts}):
            own = [a for cell, each in amounts.items() if tuple(cell[at] for at in chosen) == key for a in each]
            labels = [dict(zip(chosen, key, strict=True)).get(at) for at in (0, 1)]
            if sum(own) > 150:
                expected.append((*labels, place, sum(own), len(own), sum(own) / len(own)))
    gate = site.gate(**CONTROLS)
    answer = gate.answer(sql, "ann")
    assert list(answer.rows) == expected[:12] and answer.withheld == 0
    assert answer.columns[:5] == ("university", "department", "g", "s", "n")


def test_a_grouping_that_is_not_asked_for_is_not_shown(local: Site) -> None:
    """GROUPING SETS without the finest groups: these link the margins all the same."""
    rows = people({("U0", "D0"): [500], ("U0", "D1"): [20, 30, 40], ("U1", "D0"): [10, 20, 30, 40],
                   ("U1", "D1"): [25, 26, 27, 28]})  # fmt: skip
    local.exams([*rows, *OTHERS])
    gate = local.gate(query_set_size=3, overlap=2)
    sets = "GROUPING SETS ((university), (department), ())"
    answer = gate.answer(ROLLUP.replace("ROLLUP (university, department)", sets), "ann")
    assert all(row[0] is None or row[1] is None for row in answer.rows) and len(answer.rows) == 5
    assert answer.withheld == 0


@settings(max_examples=examples(20))
@given(
    st.lists(st.lists(st.integers(0, 60), min_size=0, max_size=5), min_size=9, max_size=9),
    st.sampled_from([ROLLUP, CUBE]),
)
def test_whatever_the_rows_are(tmp_path_factory: pytest.TempPathFactory, cells: list[list[int]], sql: str) -> None:
    rows = people({(f"U{place // 3}", f"D{place % 3}"): own for place, own in enumerate(cells)})
    site = Site(Database(connect(":memory:")), tmp_path_factory.mktemp("margins"))
    try:
        site.exams([*rows, *OTHERS])
        gate = site.gate(**CONTROLS)
        try:
            answer = gate.answer(sql, "ann")
        except Withheld:
            return
        wanted = unsafe(rows)
        if sql is ROLLUP:  # it has no groups by department alone
            wanted = iter([each for each in wanted if list(each[0]) != ["department"]])
        require_protected(rows, shown_by(answer.rows), wanted)
        assert audit_policy(gate.policy, "ann").exposures == ()
    finally:
        site.closed()


# ---- what is refused


def test_others_get_no_plain_answer(local: Site) -> None:
    local.exams([*people(audit_example()), *OTHERS])
    gate = local.gate(**CONTROLS)
    for sql in (ROLLUP, CUBE, ROLLUP.replace("ROLLUP (university, department)", "GROUPING SETS ((university), ())")):
        with pytest.raises(Refused, match="ROLLUP, CUBE and GROUPING SETS are not answered with noise"):
            gate.answer(sql, "eve")


def test_without_the_solver_nothing_is_read(local: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    local.exams([*people(audit_example()), *OTHERS])
    gate = local.gate(**CONTROLS)
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(Refused, match="HiGHS, which is not installed"):
        gate.answer(ROLLUP, "ann")
    assert not gate.ledger.history("ann")
    assert gate.answer(AFTER[0], "ann").rows, "one grouping needs no solver"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT university FROM exams GROUP BY ROLLUP (university)", "not answered at once"),
        ("SELECT id, COUNT(*) FROM exams GROUP BY ROLLUP (id)", "these groupings are not answered at once"),
        ("SELECT DISTINCT university, COUNT(*) FROM exams GROUP BY CUBE (university)", "DISTINCT of several"),
        ("SELECT COUNT(*) FROM exams GROUP BY GROUPING SETS ((university), (university))", "same grouping twice"),
        ("SELECT GROUPING(score), COUNT(*) FROM exams GROUP BY CUBE (university)", "GROUPING takes keys"),
        ("SELECT COUNT(*) FROM exams GROUP BY university WITH ROLLUP", "without a list of keys"),
        (
            "SELECT COUNT(*) FROM exams GROUP BY CUBE (university, department, score, fee), ROLLUP (fee, score)",
            "more than 32",
        ),
        ("SELECT department, COUNT(*) FROM exams GROUP BY ROLLUP (university)", "must appear|GROUP BY"),
    ],
)
def test_what_is_not_understood_is_refused(local: Site, sql: str, said: str) -> None:
    local.exams([*people(audit_example()), *OTHERS])
    with pytest.raises(Refused, match=said):
        local.gate(**CONTROLS).answer(sql, "ann")


def test_persons_with_several_rows_are_not_counted_twice(local: Site) -> None:
    local.exams([*people(audit_example()), *OTHERS])
    visits = [{"id": number, "ward": f"w{number % 3}", "cost": 5} for number in range(40) for _ in range(2)]
    local.table("visits", {"id": "INTEGER", "ward": "TEXT", "cost": "INTEGER"}, visits)
    tables = {"visits": {"unit": "id", "columns": {"cost": {"low": 0, "high": 100}}}}
    gate = local.gate(**{**CONTROLS, "tables": tables})
    with pytest.raises(Refused, match="persons who may have several rows are not counted"):
        gate.answer("SELECT ward, COUNT(DISTINCT id) FROM visits GROUP BY ROLLUP (ward)", "ann")
    answer = gate.answer("SELECT ward, COUNT(*), SUM(cost) FROM visits WHERE id < 30 GROUP BY ROLLUP (ward)", "ann")
    assert (None, 60, 300) in answer.rows


def test_amounts_that_are_missing_in_some_rows_are_withheld(local: Site) -> None:
    rows = people({(f"U{u}", f"D{d}"): [30, 28, 27, 26, 25] for u in range(3) for d in range(3)})
    rows[0]["score"] = None
    local.exams([*rows, *OTHERS])
    gate = local.gate(**CONTROLS)
    with pytest.raises(Withheld):
        gate.answer(ROLLUP, "ann")  # a group would be two: of its rows, and of those with a score
    assert gate.answer(ROLLUP.replace("WHERE", "WHERE score IS NOT NULL AND"), "ann").rows
