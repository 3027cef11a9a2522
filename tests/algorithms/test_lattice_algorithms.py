"""Samarati, Incognito and Datafly against all nodes of small lattices, walked in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import brute_loss
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from searching import GROUP, K2, K3, L2, PAST, PATHS, Row, T, broken_classes, generalized, opened, solve, tables

from sqlanon.errors import PolicyError
from sqlanon.lattice.nodes import Infeasible

TOPS = [len(next(iter(PATHS[c].values()))) - 1 for c in GROUP]
NODES = list(itertools.product(*(range(top + 1) for top in TOPS)))
LATTICE = ["samarati", "incognito", "datafly"]
limits = st.sampled_from([0.0, 0.1, 0.3])
# Those that stay true upwards also under suppression.
nested_models = st.sampled_from([[K2], [K3], [K2, L2]])


def kept(rows: Sequence[Row], node: Sequence[int], models: list[dict[str, Any]]) -> list[bool]:
    new = generalized(rows, node)
    bad = broken_classes(new, models)
    return [tuple(row[c] for c in GROUP) not in bad for row in new]


def holds(rows: Sequence[Row], node: Sequence[int], models: list[dict[str, Any]], limit: float) -> bool:
    gone = kept(rows, node, models).count(False)
    return gone < len(rows) and gone <= limit * len(rows) + 1e-9


def ncp(rows: Sequence[Row], node: Sequence[int], models: list[dict[str, Any]]) -> float:
    new, stay = generalized(rows, node), kept(rows, node, models)
    pairs = [(row, to if keep else None) for row, to, keep in zip(rows, new, stay, strict=True)]
    return float(brute_loss.ncp(pairs, GROUP, PATHS))


def holding(rows: Sequence[Row], models: list[dict[str, Any]], limit: float) -> set[tuple[int, ...]]:
    return {node for node in NODES if holds(rows, node, models, limit)}


@pytest.mark.full
@settings(max_examples=examples(20))
@given(rows=tables, models=nested_models, limit=limits)
def test_incognito_finds_all_nodes_that_hold_and_the_best(
    duck: Database, rows: list[Row], models: list[dict[str, Any]], limit: float
) -> None:
    true = holding(rows, models, limit)
    with opened(duck, rows, models, limit=limit) as problem:
        if not true:
            with pytest.raises(Infeasible):
                solve("incognito", problem)
            return
        found = solve("incognito", problem)
    with opened(duck, rows, models, limit=limit) as problem:
        exhaustive = solve("exhaustive", problem)
    assert found.proven and f"all {len(true)} nodes" in found.why
    assert (found.passes, found.suppressed) == (exhaustive.passes, exhaustive.suppressed)
    assert found.loss == pytest.approx(min(ncp(rows, node, models) for node in true), abs=1e-9)
    minimal = {node for node in true if not any(below(other, node) for other in true - {node})}
    assert {item.node for item in found.candidates[: len(minimal)]} == minimal


def below(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


@settings(max_examples=examples(20))
@given(rows=tables, models=nested_models, limit=limits)
def test_samarati_finds_the_best_of_the_lowest_nodes(
    duck: Database, rows: list[Row], models: list[dict[str, Any]], limit: float
) -> None:
    true = holding(rows, models, limit)
    with opened(duck, rows, models, limit=limit) as problem:
        if not true:
            with pytest.raises(Infeasible):
                solve("samarati", problem)
            return
        found = solve("samarati", problem)
    (node,) = found.passes
    lowest = min(map(sum, true))
    assert node in true and sum(node) == lowest
    assert found.loss == pytest.approx(ncp(rows, node, models), abs=1e-9)
    assert found.loss == pytest.approx(min(ncp(rows, n, models) for n in true if sum(n) == lowest), abs=1e-9)


@settings(max_examples=examples(20))
@given(rows=tables, models=st.sampled_from([[K2], [K3, L2], [K2, T]]), limit=limits)
def test_datafly_raises_the_column_with_the_most_values(
    duck: Database, rows: list[Row], models: list[dict[str, Any]], limit: float
) -> None:
    node = [0, 0, 0]
    while not holds(rows, node, models, limit) and node != TOPS:
        counts = [len({row[c] for row in generalized(rows, node)}) for c in GROUP]
        open_ = [i for i in range(3) if node[i] < TOPS[i]]
        node[max(open_, key=lambda i: (counts[i], -i))] += 1
    with opened(duck, rows, models, limit=limit) as problem:
        if not holds(rows, node, models, limit):
            with pytest.raises(Infeasible):
                solve("datafly", problem)
            return
        found = solve("datafly", problem)
    assert found.passes == (tuple(node),)
    assert found.suppressed == kept(rows, node, models).count(False)
    assert not found.proven


@pytest.mark.full
@pytest.mark.parametrize("name", LATTICE)
def test_on_both_engines(database: Database, name: str) -> None:
    rows = _eight()
    with opened(database, rows, [K2], limit=0.25) as problem:
        found = solve(name, problem)
        (node,) = found.passes
    assert holds(rows, node, [K2], 0.25)
    assert found.loss == pytest.approx(ncp(rows, node, [K2]))


def _eight() -> list[Row]:
    lines = ["w1p flu", "x1q hiv", "w2p flu", "x2q hiv", "y3r cold", "z3s flu", "y3r hiv", "z3s hiv"]
    return [{"a": line[0], "b": line[1], "c": line[2], "s": line[4:], "who": "A"} for line in lines]


@pytest.mark.parametrize("name", LATTICE)
@pytest.mark.parametrize("limit", [0.0, 0.3])
def test_a_deadline_in_the_past_still_gives_what_holds(duck: Database, name: str, limit: float) -> None:
    with opened(duck, _eight(), [K2], limit=limit, seconds=PAST) as problem:
        found = solve(name, problem)
    assert holds(_eight(), found.passes[0], [K2], limit) and not found.proven


@pytest.mark.full
@pytest.mark.parametrize("name", LATTICE)
def test_what_cannot_be_reached(duck: Database, name: str) -> None:
    with opened(duck, _eight(), [{"k_anonymity": {"k": 9}}], limit=1.0) as problem, pytest.raises(Infeasible):
        solve(name, problem)
    with opened(duck, [], [K2]) as problem, pytest.raises(Infeasible):
        solve(name, problem)


@pytest.mark.parametrize("name", ["samarati", "incognito"])
def test_models_that_are_not_nested_are_refused(duck: Database, name: str) -> None:
    with opened(duck, _eight(), [K2, T], limit=0.3) as problem:
        with pytest.raises(PolicyError, match=f"{name} cannot search for t_closeness") as error:
            solve(name, problem)
        assert "full_domain" in str(error.value.hint)
    # Without suppression t-closeness stays true upwards.
    with opened(duck, _eight(), [K2, T]) as problem:
        assert solve(name, problem).suppressed == 0


def test_samarati_takes_the_lowest_though_another_loses_less(duck: Database) -> None:
    """Hiding b (one level) is enough; losing less by a and c together would take more levels."""
    rows = [{"a": "wz"[i % 2], "b": "123"[i % 3], "c": "p", "s": "flu", "who": "A"} for i in range(6)]
    with opened(duck, rows, [K3]) as problem:
        found = solve("samarati", problem)
    assert found.passes == ((0, 1, 0),)
    assert found.loss == pytest.approx(1 / 3)


@pytest.mark.full
def test_persons_count_not_rows(duck: Database) -> None:
    rows = [{"a": "wxyz"[i % 4], "b": "1", "c": "p", "s": "flu", "who": "AAAABBBB"[i]} for i in range(8)]
    # Two rows a value, but of persons A and B each: values hold for k = 2, nothing holds for k = 3.
    for name in LATTICE:
        with opened(duck, rows, [K2], person="who") as problem:
            assert solve(name, problem).passes == ((0, 0, 0),)
        with opened(duck, rows, [K3], person="who") as problem, pytest.raises(Infeasible):
            solve(name, problem)
