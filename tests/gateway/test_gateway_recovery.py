"""Withheld groups do not come back: cells and margins in every order, put together by linear algebra."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Database
from scipy.optimize import linprog
from test_gateway_controls import Site, exam

from sqlanon.engines import connect
from sqlanon.errors import PolicyError, Withheld
from sqlanon.gateway.audit_policy import audit_policy
from sqlanon.policy.files import parse_gateway

# Three cells that one person dominates; all others are even.
CELLS = [(f"U{u}", f"D{d}") for u in range(3) for d in range(3)]
DOMINATED = {("U0", "D0"): 900, ("U1", "D1"): 800, ("U2", "D2"): 950}
PEOPLE = [
    exam(10 * place + number, *cell, DOMINATED.get(cell, 30) if number == 0 else 20 + number)
    for place, cell in enumerate(CELLS)
    for number in range(5)
]
ASKED = {
    "cells": ("SELECT university, department, SUM(score) FROM exams GROUP BY university, department", (1, 2)),
    "universities": ("SELECT university, SUM(score) FROM exams GROUP BY university", (1,)),
    "departments": ("SELECT department, SUM(score) FROM exams GROUP BY department", (2,)),
}
# One more statement that a careful analyst asks: a university without a department, which leaves one cell.
REST = [f"SELECT SUM(score) FROM exams WHERE university = '{u}' AND department <> '{d}'" for u, d in DOMINATED]
P = 20.0
CONTROLS: dict[str, Any] = {"query_set_size": 3, "p_percent": P, "dominance": {"n": 1, "k": 0.8}}
VALUES = np.array([row["score"] for row in PEOPLE])


def indicator(**where: str) -> np.ndarray:
    return np.array([int(all(row[name] == value for name, value in where.items())) for row in PEOPLE])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(Database(connect(":memory:")), tmp_path)
    made.exams(PEOPLE)
    yield made
    made.closed()


def learned(gate: Any, order: Sequence[str], rest: Sequence[str] = ()) -> list[np.ndarray]:
    """The query sets that were answered, each with the right sum."""
    found = []
    for name in order:
        sql, keys = ASKED[name]
        try:
            rows = gate.answer(sql, "ann").rows
        except Withheld:
            continue
        for *key, total in rows:
            where = {("university" if at == 1 else "department"): value for at, value in zip(keys, key, strict=True)}
            found.append(indicator(**where))
            assert found[-1] @ VALUES == total
    for (u, d), sql in zip(DOMINATED, rest, strict=False):
        try:
            ((total,),) = gate.answer(sql, "ann").rows
        except Withheld:
            continue
        found.append(indicator(university=u) - indicator(university=u, department=d))
        assert found[-1] @ VALUES == total
    return found


def in_span(rows: Sequence[np.ndarray], wanted: np.ndarray) -> bool:
    """Exactly, in fractions."""
    basis: list[tuple[int, list[Fraction]]] = []
    for place, given in enumerate([*rows, wanted]):
        row = [Fraction(int(value)) for value in given]
        for pivot, line in basis:
            factor = row[pivot]
            row = [a - factor * b for a, b in zip(row, line, strict=True)]
        pivots = [at for at, value in enumerate(row) if value]
        if place == len(rows):
            return not pivots
        if pivots:
            basis.append((pivots[0], [value / row[pivots[0]] for value in row]))
    raise AssertionError


def most(rows: Sequence[np.ndarray], who: int, second: int) -> float:
    """The most that a person's value can be, for another person, who knows their own, and that nothing is negative."""
    bounds: list[tuple[int, int | None]] = [(0, None)] * len(PEOPLE)
    bounds[second] = (VALUES[second], VALUES[second])
    costs = np.zeros(len(PEOPLE))
    costs[who] = -1
    equal = {"A_eq": np.array(rows), "b_eq": np.array(rows) @ VALUES} if rows else {}
    found = linprog(costs, bounds=bounds, **equal)
    assert found.status in (0, 3)  # found, or without a bound
    return float(-found.fun) if found.status == 0 else float("inf")


def close(rows: Sequence[np.ndarray], cell: tuple[str, str]) -> bool:
    """Whether the second largest of a cell can tell the value of the largest to within P percent."""
    inside = np.flatnonzero(indicator(university=cell[0], department=cell[1]))
    first, second, *_ = sorted(inside, key=lambda at: -VALUES[at])
    return most(rows, first, second) < VALUES[first] * (1 + P / 100) - 1e-6


def test_without_overlap_every_withheld_cell_comes_back_and_the_audit_names_all(site: Site) -> None:
    gate = site.gate(**CONTROLS)
    found = learned(gate, ["cells", "universities"])
    assert len(found) == 6 + 3
    for u, d in DOMINATED:
        assert in_span(found, indicator(university=u, department=d)) and close(found, (u, d))
    report = audit_policy(gate.policy, "ann")
    assert [(each.withheld, each.together) for each in report.exposures if each.measure == "exams.score"] == [(3, 1)]


def test_a_sum_of_withheld_cells_that_comes_back_is_named(site: Site) -> None:
    """U0 has two withheld cells: by the margin less the third, their sum is known, and neither of them."""
    rows = [row | {"score": 900} if row["id"] == 10 else row for row in PEOPLE]  # U0, D1 is dominated too
    site.exams(rows)
    gate = site.gate(**CONTROLS)
    for name in ("cells", "universities"):
        gate.answer(ASKED[name][0], "ann")
    exposed = [each for each in audit_policy(gate.policy, "ann").exposures if each.measure == "exams.score"]
    assert sorted((each.withheld, each.together) for each in exposed) == [(1, 2), (2, 1)]


@pytest.mark.full
@pytest.mark.parametrize("overlap", [0, 1, 2])
def test_with_overlap_no_withheld_cell_comes_back_in_any_order(site: Site, overlap: int) -> None:
    answered = 0
    for order in permutations(ASKED):
        gate = site.gate(**CONTROLS, overlap=overlap)
        found = learned(gate, order, REST)
        answered += len(found)
        for cell in DOMINATED:
            assert not in_span(found, indicator(university=cell[0], department=cell[1])), (order, cell)
            assert not close(found, cell), (order, cell)
        assert audit_policy(gate.policy, "ann").exposures == ()
        site.closed()
    assert answered >= 6 * 3, "nothing was answered at all"


def test_a_ring_of_small_overlaps_is_not_closed(site: Site) -> None:
    """A+B, B+C and C+A share two persons each, which is allowed, and give the sums of A, B and C by halves."""
    ring = ["id IN (0, 1, 2, 3)", "id IN (2, 3, 10, 11)", "id IN (0, 1, 10, 11)"]
    gate = site.gate(query_set_size=3, overlap=2)
    groups = "SELECT CASE WHEN id < 2 THEN 1 ELSE 2 END AS g, SUM(score) FROM exams"
    cells = f"{groups} WHERE id IN (0, 1, 20, 21, 22) GROUP BY g"
    assert len(gate.answer(cells, "ann").rows) == 1  # of persons 0 and 1 nothing is told
    for where in ring[:2]:
        gate.answer(f"SELECT SUM(score) FROM exams WHERE {where}", "ann")
    with pytest.raises(Withheld):
        gate.answer(f"SELECT SUM(score) FROM exams WHERE {ring[2]}", "ann")


@pytest.mark.parametrize(
    ("controls", "said"),
    [
        ("{query_set_size: 10}", "without overlap, withheld groups come back"),
        ("{query_set_size: 10, dominance: {n: 1, k: 0.8}}", "without overlap, withheld groups come back"),
        ("{query_set_size: 10, p_percent: 10, overlap: 10}", "an overlap of 10 lets a margin hold a group"),
    ],
)
def test_a_policy_without_a_small_overlap_is_refused(controls: str, said: str) -> None:
    text = (
        "gateway: {database: d.duckdb, unit: {table: t, key: i}, tables: {t: {}}, rows: 1, "
        "budget: {statement: {epsilon: 1}, principal: {epsilon: 9}}, principals: {ann: {controls: true}}, "
        "controls: %s}"
    )
    with pytest.raises(PolicyError, match=said):
        parse_gateway(text % controls, "policy.yml", Path())
    parse_gateway(text % "{query_set_size: 10, overlap: 9}", "policy.yml", Path())
