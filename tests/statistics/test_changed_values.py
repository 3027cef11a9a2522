"""Rounding and adjustment: worked examples, the numbers of other programs, and all tables of tiny sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_numbers import read_numbers
from statistical_tables import NamedTable, flat_table, numbered_table, protect_task

from sqlanon.errors import NotReleased, SourceError
from sqlanon.statistics.audit import Auditor
from sqlanon.statistics.changed_attacks import find_pairs
from sqlanon.statistics.controlled_rounding import box_task, round_table, rounded_box
from sqlanon.statistics.table_system import Task, build_system
from sqlanon.statistics.tabular_adjustment import AdjustedTable, adjust_table

NUMBERS = read_numbers("statistics_tables")
FISCHETTI = flat_table([[20, 50, 10], [8, 19, 22], [17, 32, 12]])
Level = tuple[int, float, float]


def known_zeros(table: NamedTable) -> list[float]:
    return [math.inf if value else 0 for value in table.value]


def is_additive(table: NamedTable, values: Sequence[float]) -> bool:
    return all(
        abs(values[total] - sum(values[part] for part in parts)) < 1e-6 for total, parts in table.equations
    )  # fmt: skip


# ---- controlled rounding


@pytest.mark.parametrize(("base", "distance"), [(3, 16), (5, 16), (10, 24)])
def test_the_distance_of_the_worked_example(base: int, distance: float) -> None:
    found = round_table(protect_task(FISCHETTI.system(), []), base, 20)
    assert (found.cost, found.bound, found.steps) == (distance, distance, 1)
    assert is_additive(FISCHETTI, list(found.values)) and not (found.values % base).any()
    assert (np.abs(found.values - FISCHETTI.value) < base).all()


@pytest.mark.parametrize("case", NUMBERS["cases"], ids=lambda case: case["case"])
@pytest.mark.parametrize("base", [3, 5])
def test_distances_are_those_of_another_program(case: dict, base: int) -> None:  # type: ignore[type-arg]
    table = numbered_table(case["case"], "freq")
    found = round_table(protect_task(table.system(high=known_zeros(table)), []), base, 20)
    assert found.cost == found.bound == case[f"rounding_base_{base}_distance"]


def all_roundings(table: NamedTable, base: int, steps: int) -> Iterator[list[float]]:
    """Every table of multiples that is additive, from all choices for the finest cells."""

    def choices(value: float) -> list[float]:
        below = math.floor(value / base) * base
        if value == 0:
            return [0.0]
        if value == below:
            return [below] if steps == 1 else [below - base, below, below + base]
        near = [below, below + base]
        return near if steps == 1 else [own for own in (below - base, *near, below + 2 * base) if own >= 0]

    totals = [total for total, _ in table.equations]
    leaves = [cell for cell in range(len(table.value)) if cell not in totals]
    for chosen in itertools.product(*(choices(table.value[cell]) for cell in leaves)):
        values = dict(zip(leaves, chosen, strict=True))
        for _ in range(2):
            for total, parts in table.equations:
                if all(part in values for part in parts):
                    values[total] = sum(values[part] for part in parts)
        if all(values[cell] in choices(value) for cell, value in enumerate(table.value)):
            yield [values[cell] for cell in range(len(table.value))]


def is_open(table: NamedTable, values: Sequence[float], levels: Sequence[Level], reach: int) -> bool:
    """Whether some table of whole numbers that a reader can believe in lies at each level: all are tried."""
    totals = {total for total, _ in table.equations}
    leaves = [cell for cell in range(len(table.value)) if cell not in totals]
    spans = {
        cell: (0, 0) if table.value[cell] == 0 else (max(0, int(values[cell]) - reach), int(values[cell]) + reach)
        for cell in range(len(table.value))
    }
    low, high = [math.inf] * len(table.value), [-math.inf] * len(table.value)
    for guess in itertools.product(*(range(spans[cell][0], spans[cell][1] + 1) for cell in leaves)):
        other = dict(zip(leaves, guess, strict=True))
        for _ in range(2):
            for total, parts in table.equations:
                if all(part in other for part in parts):
                    other[total] = sum(other[part] for part in parts)
        if all(spans[cell][0] <= other[cell] <= spans[cell][1] for cell in other):
            for cell, value in other.items():
                low[cell], high[cell] = min(low[cell], value), max(high[cell], value)
    return all(
        low[cell] <= table.value[cell] - min(lower, table.value[cell]) and high[cell] >= table.value[cell] + upper
        for cell, lower, upper in levels
    )


@st.composite
def tiny_tables(draw: st.DrawFn, most: int) -> tuple[NamedTable, list[Level]]:
    height, width = draw(st.sampled_from([(1, 2), (2, 1), (2, 2)]))
    values = st.integers(0, most)
    table = flat_table([[draw(values) for _ in range(width)] for _ in range(height)])
    filled = [cell for cell, value in enumerate(table.value) if value]
    unsafe = draw(st.lists(st.sampled_from(filled), max_size=2, unique=True)) if filled else []
    return table, [(cell, float(draw(st.integers(1, 3))), float(draw(st.integers(1, 3)))) for cell in unsafe]


@settings(max_examples=examples(60))
@given(tiny_tables(9), st.sampled_from([2, 3, 4]))
def test_rounding_is_the_best_of_all_tables(given_: tuple[NamedTable, list[Level]], base: int) -> None:
    table, levels = given_
    task = protect_task(table.system(high=known_zeros(table)), levels)
    for steps in (1, 2):
        costs = [
            sum(abs(a - b) for a, b in zip(values, table.value, strict=True))
            for values in all_roundings(table, base, steps)
            if is_open(table, values, levels, steps * base - 1)
        ]
        if costs:
            found = round_table(task, base, 20)
            assert (found.steps, found.cost) == (steps, pytest.approx(min(costs)))
            assert found.bound == pytest.approx(found.cost)
            return
    with pytest.raises(NotReleased, match="no table of multiples"):
        round_table(task, base, 20)


@settings(max_examples=examples(25))
@given(st.integers(0, 10**6), st.sampled_from([3, 5]))
def test_every_rounded_table_passes_the_audit_and_relabelling_changes_no_cost(seed: int, base: int) -> None:
    random = np.random.default_rng(seed)
    table = flat_table(random.poisson(random.gamma(0.8, 6), (3, 4)).tolist())
    levels = [(cell, 1.0, 1.0) for cell, value in enumerate(table.value) if 0 < value <= 2]
    task = protect_task(table.system(high=known_zeros(table)), levels)
    order = random.permutation(len(table.value))
    value = np.zeros(len(order))
    value[order] = table.value
    renamed = build_system(
        list(value), [(int(order[total]), [int(order[part]) for part in parts]) for total, parts in table.equations],
        high=[math.inf if own else 0 for own in value],
    )  # fmt: skip
    other = protect_task(renamed, [(int(order[cell]), lower, upper) for cell, lower, upper in levels])
    try:
        found = round_table(task, base, 20)
    except NotReleased:
        with pytest.raises(NotReleased):
            round_table(other, base, 20)
        return
    assert is_additive(table, list(found.values)) and not (found.values % base).any()
    confined = box_task(task, *rounded_box(found.values, base, found.steps))
    assert not Auditor(confined).find_lacks(np.ones(len(order), dtype=bool))
    assert round_table(other, base, 20).cost == pytest.approx(found.cost)


def test_where_no_table_is_near_enough_cells_go_one_step_further() -> None:
    """The known case of three dimensions without a zero-restricted rounding: Causey, Cox and Ernst 1985 need one."""
    ones = {(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)}
    cells = list(itertools.product(range(3), repeat=3))  # 2 is the total
    at = {nodes: place for place, nodes in enumerate(cells)}
    value = [
        sum(leaf in ones for leaf in itertools.product(*([0, 1] if node == 2 else [node] for node in nodes)))
        for nodes in cells
    ]
    equations = [
        (at[nodes], [at[(*nodes[:place], part, *nodes[place + 1 :])] for part in (0, 1)])
        for nodes in cells for place in range(3) if nodes[place] == 2
    ]  # fmt: skip
    table = NamedTable({str(nodes): place for nodes, place in at.items()}, value, equations)
    # Lines of one 1 each, planes of two, and four in all: with base 2 lines go to 0 or 2, and planes stay at 2.
    assert not list(all_roundings(table, 2, 1))
    found = round_table(protect_task(table.system(high=known_zeros(table)), []), 2, 20)
    assert found.steps == 2 and is_additive(table, list(found.values)) and not (found.values % 2).any()


def test_an_empty_cell_stays_empty_and_a_multiple_stays() -> None:
    table = flat_table([[0, 3], [6, 9]])
    found = round_table(protect_task(table.system(high=known_zeros(table)), []), 3, 20)
    assert list(found.values) == table.value and found.cost == 0


def test_levels_beyond_what_the_base_leaves_open_are_refused_without_a_number() -> None:
    table = flat_table([[7, 40], [30, 20]])
    task = protect_task(table.system(), [(table.at["r0|c0"], 7, 25)])
    with pytest.raises(NotReleased, match="take a larger base") as refused:
        round_table(task, 3, 20)
    assert "25" not in str(refused.value) and "r0" not in str(refused.value)


def test_values_that_were_shown_do_not_change() -> None:
    task = protect_task(FISCHETTI.system(), [])
    cell = FISCHETTI.at["r1|c2"]
    for shown in (20.0, 25.0):
        assert round_table(task, 5, 20, fixed={cell: shown}).values[cell] == shown
    with pytest.raises(NotReleased):
        round_table(task, 5, 20, fixed={cell: 21.0})


# ---- controlled tabular adjustment


def adjust(task: Task, *, exact: bool = True, seconds: float = 20) -> AdjustedTable:
    size = task.system.cells
    return adjust_table(
        task, whole=np.ones(size, dtype=bool), weight=np.ones(size), seconds=seconds, exact=exact
    )  # fmt: skip


def is_moved(task: Task, values: np.ndarray) -> bool:  # type: ignore[type-arg]
    move = (values - task.system.value)[task.primaries.cell]
    return bool(((move >= task.primaries.upper - 1e-6) | (move <= -task.primaries.lower + 1e-6)).all())


def test_the_changes_of_the_worked_example() -> None:
    task = protect_task(FISCHETTI.system(), [(FISCHETTI.at["r1|c2"], 5, 8)])
    found = adjust(task)
    assert (found.cost, found.bound) == (20, 20) and is_additive(FISCHETTI, list(found.values))
    assert FISCHETTI.value[FISCHETTI.at["r1|c2"]] - found.values[FISCHETTI.at["r1|c2"]] == 5
    assert adjust(task, exact=False).cost == 32  # the first goes up, by 8


@pytest.mark.parametrize("case", NUMBERS["cases"], ids=lambda case: case["case"])
def test_changes_are_those_of_another_program(case: dict) -> None:  # type: ignore[type-arg]
    table = numbered_table(case["case"], "freq")
    levels = [(cell, 1.0, 1.0) for cell, value in enumerate(table.value) if 0 < value <= 2]
    task = protect_task(table.system(high=known_zeros(table)), levels)
    found, quick = adjust(task), adjust(task, exact=False)
    assert found.cost == pytest.approx(case["cta_l1_count_level_1"]) and found.bound == pytest.approx(found.cost)
    assert quick.cost >= found.cost - 1e-6 and quick.bound is None
    for made in (found, quick):
        assert is_additive(table, list(made.values)) and is_moved(task, made.values)
        assert not (made.values % 1).any() and (made.values >= 0).all()
        assert all(made.values[cell] == 0 for cell, value in enumerate(table.value) if not value)


@settings(max_examples=examples(60))
@given(tiny_tables(6))
def test_adjustment_is_the_best_of_all_tables(given_: tuple[NamedTable, list[Level]]) -> None:
    table, levels = given_
    task = protect_task(table.system(high=known_zeros(table)), levels)
    totals = {total for total, _ in table.equations}
    leaves = [cell for cell in range(len(table.value)) if cell not in totals]
    best = math.inf
    for guess in itertools.product(*(range(table.value[cell] + 8 if table.value[cell] else 1) for cell in leaves)):
        other = dict(zip(leaves, guess, strict=True))
        for _ in range(2):
            for total, parts in table.equations:
                if all(part in other for part in parts):
                    other[total] = sum(other[part] for part in parts)
        values = np.array([other[cell] for cell in range(len(table.value))], dtype=np.float64)
        if is_moved(task, values):
            best = min(best, float(np.abs(values - table.value).sum()))
    if math.isinf(best):
        with pytest.raises(NotReleased, match="moves every unsafe cell"):
            adjust(task)
        return
    found = adjust(task)
    assert found.cost == pytest.approx(best) == pytest.approx(found.bound)
    assert is_additive(table, list(found.values)) and is_moved(task, found.values)
    assert adjust(task, exact=False).cost >= best - 1e-6


def test_amounts_with_decimals_move_by_their_level() -> None:
    table = flat_table([[2.5, 7.25], [4.75, 9.5]])  # type: ignore[list-item]
    task = protect_task(table.system(), [(table.at["r0|c0"], 0.3, 0.3)])
    size = task.system.cells
    found = adjust_table(task, whole=np.zeros(size, dtype=bool), weight=np.ones(size), seconds=20)
    assert found.cost == pytest.approx(1.2) and is_additive(table, list(found.values))


def test_who_knows_the_levels_tests_two_values() -> None:
    """Least changes move an unsafe cell by just its level: what it was is one of two."""
    task = protect_task(FISCHETTI.system(), [(FISCHETTI.at["r1|c2"], 5, 8)])
    found = find_pairs(task, adjust(task).values)
    assert (found.broken, found.exact) == (1, 0) and "100%" in found.about
    further = adjust(task).values.copy()
    further[FISCHETTI.at["r1|c2"]] -= 1
    assert find_pairs(task, further).broken == 0


# ---- time and solver


def test_a_solver_that_finds_nothing_in_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlanon.statistics import flow_program

    clock = flow_program.SolverClock
    monkeypatch.setattr(clock, "is_over", property(lambda self: True))
    task = protect_task(FISCHETTI.system(), [(FISCHETTI.at["r1|c2"], 5, 8)])
    for call in (lambda: round_table(task, 5, 0.5), lambda: adjust(task, seconds=0.5)):
        with pytest.raises(NotReleased, match=r"found no \w+ table within 0.5 seconds\n.*previous release"):
            call()


def test_a_program_that_is_out_of_time_keeps_what_it_has() -> None:
    """A larger cube, whose least changes take longer than is given: a table all the same, and a bound."""
    random = np.random.default_rng(3)
    table = flat_table(random.poisson(8, (14, 14)).tolist())
    levels = [(cell, 2.0, 3.0) for cell, value in enumerate(table.value) if 0 < value <= 6]
    task = protect_task(table.system(high=known_zeros(table)), levels)
    found = adjust(task, seconds=0.6)
    assert is_additive(table, list(found.values)) and is_moved(task, found.values)
    assert found.bound is None or found.bound <= found.cost + 1e-6


def test_the_solver_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "highspy", None)
    task = protect_task(FISCHETTI.system(), [(FISCHETTI.at["r1|c2"], 5, 8)])
    for call in (lambda: round_table(task, 5, 1), lambda: adjust(task)):
        with pytest.raises(SourceError, match="HiGHS, which is not installed"):
            call()
