"""From the cells in the database to the numbers of a protection task, and back to the pattern in the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlglot import exp

from sqlanon.errors import SourceError
from sqlanon.policy.statistics import STATISTIC, VALUE, StatisticsPolicy
from sqlanon.policy.table_protection import Suppression
from sqlanon.relations.statistics_tables import cell_ancestors, released_rows
from sqlanon.sqltree.tree import nest_query, select, table, union_all
from sqlanon.statistics.cell_tables import CellTables, TableCells, Workspace, find_unsafe, read_cells
from sqlanon.statistics.dimensions import Dimension
from sqlanon.statistics.table_system import OUTSIDER, Flags, Indices, Intruder, Primaries, TableSystem, Task

LARGEST_VALUE = 1e15
Measure = tuple[str | None, str | None]  # amount and weight


@dataclass(frozen=True)
class ReadTables:
    """The task, and which cell of which table each of its variables is."""

    task: Task
    variables: Mapping[tuple[Measure, int], int]  # of a measure and the number of a cell
    contributors: np.ndarray[Any, np.dtype[np.int64]]  # in each variable
    unsafe: tuple[tuple[str, str, int, float], ...]  # table, rule, cell, level
    published: Mapping[str, Mapping[int, int]]  # by table: the place of each cell that is published
    cells: Mapping[str, tuple[int, ...]]  # by table: all cells
    earlier_shown: int = 0  # unsafe cells that an earlier release of the same records shows

    def cost(self, hidden: Flags) -> float:
        """What a pattern costs beside unsafe cells, whichever of it is new."""
        shown = np.zeros(self.task.system.places, dtype=bool)
        for own in self.published.values():
            shown[list(own.values())] = True
        return float(self.task.system.weight[hidden & shown & ~self.task.unsafe_places].sum())

    def variable(self, item: TableCells, cell: int) -> int:
        return self.variables[measure_of(item), cell]


@dataclass(frozen=True)
class EarlierPattern:
    """What earlier releases of the same records showed, by table: cells ever shown, and cells always hidden."""

    shown: Mapping[str, frozenset[int]] = field(default_factory=dict)
    hidden: Mapping[str, frozenset[int]] = field(default_factory=dict)


def measure_of(item: TableCells) -> Measure:
    return item.statistic.of, item.statistic.weight


def published_margin(item: TableCells, dimensions: Mapping[int, Dimension], cell: int) -> bool:
    """Whether a table publishes a cell: the finest ones, and the totals that the policy lists."""
    if item.statistic.margins is None:
        return True
    kept = {dimensions[place].name for place in item.places if dimensions[place].node_of(cell)}
    return len(kept) == len(item.places) or any(kept == set(listed) for listed in item.statistic.margins)


def read_tables(tables: CellTables, settings: Suppression, earlier: EarlierPattern | None = None) -> ReadTables:
    """What must be protected, and from whom."""
    unsafe = find_unsafe(tables)
    dimensions = {place: tables.dimension(place) for item in tables.tables for place in item.places}
    lone: dict[str, str] = {}
    if settings.singletons != "ignore":
        lone = _number_attackers(tables, unsafe if settings.singletons == "protect" else ())
    variables: dict[tuple[Measure, int], int] = {}
    places: dict[int, int] = {}
    value: list[float] = []
    contributors: list[int] = []
    where: list[int] = []
    shown: set[int] = set()  # places
    published: dict[str, dict[int, int]] = {}
    alone: dict[tuple[str, int], set[int]] = {}
    cells: dict[str, tuple[int, ...]] = {}
    for item in tables.tables:
        names = lone.get(_who(tables.policy, item))
        own: dict[int, int] = {}
        listed = []
        for cell, amount, count, number in read_cells(tables, item, names):
            place = places.setdefault(cell, len(places))
            listed.append(cell)
            variable = variables.setdefault((measure_of(item), cell), len(variables))
            if variable == len(value):
                value.append(float(amount))
                contributors.append(int(count))
                where.append(place)
            if number is not None:
                alone.setdefault((str(names), int(number)), set()).add(variable)
            if published_margin(item, dimensions, cell):
                own[cell] = place
                shown.add(place)
        published[item.name] = own
        cells[item.name] = tuple(listed)
    numbers = np.array(value, dtype=np.float64)
    if not np.isfinite(numbers).all() or (len(numbers) and numbers.max() > LARGEST_VALUE):
        raise SourceError("an amount is not a finite number, or above 1e15", hint="publish in thousands or millions")
    counts = np.array(contributors, dtype=np.int64)
    place_of = np.array(where, dtype=np.int64)
    forced = np.ones(len(places), dtype=bool)
    forced[list(shown)] = False
    low, high = _known_bounds(numbers, counts, settings)
    fixed = _apply_earlier(tables, earlier, variables, places, forced)
    low[fixed], high[fixed] = numbers[fixed], numbers[fixed]
    rows, columns, signs = _read_equations(tables, variables)
    system = TableSystem(
        numbers, low, high, rows, columns, signs, place_of, _weights(numbers, place_of, variables, settings), forced
    )
    by_name = {item.name: item for item in tables.tables}
    levels: dict[int, float] = {}
    shown_before: set[int] = set()
    for name, _, cell, level in unsafe:
        variable = variables[measure_of(by_name[name]), cell]
        if fixed[variable]:
            shown_before.add(variable)
        else:
            levels[variable] = max(level, levels.get(variable, 0.0))
    primaries = Primaries.of(system, ((cell, level, level, 0.0) for cell, level in levels.items()))
    intruders = _read_intruders(tables, alone, variables, lone)
    task = Task(system, primaries, (OUTSIDER, *intruders))
    return ReadTables(task, variables, counts, tuple(unsafe), published, cells, len(shown_before))


def _who(policy: StatisticsPolicy, item: TableCells) -> str:
    return policy.contributor_of(item.statistic) or ""


def _number_attackers(tables: CellTables, unsafe: Iterable[tuple[str, str, int, float]]) -> dict[str, str]:
    """By contributor column: a table that numbers those who are alone in a cell, or have the largest part of an unsafe
    one: they know most of what is hidden there."""
    found: dict[str, list[TableCells]] = {}
    for item in tables.tables:
        found.setdefault(_who(tables.policy, item), []).append(item)
    cells: dict[str, set[int]] = {}
    for name, _, cell, _ in unsafe:
        cells.setdefault(name, set()).add(cell)
    made = {}
    for who, items in found.items():
        if who == "" and len({(item.statistic.waived, item.statistic.weight) for item in items}) > 1:
            # Rows are numbered for each pass over them: numbers of two passes do not tell the same row.
            continue
        parts: list[exp.Query] = [select("lone", source=table(item.cells)) for item in items]
        parts += [
            _largest_contributors(tables, item, own)
            for item in items if item.statistic.of is not None and (own := cells.get(item.name))
        ]  # fmt: skip
        every = tables.workspace.make("lone", select("lone", source=nest_query(union_all(parts), "cells_")))
        made[who] = tables.workspace.bound("lone", "lone_contributors", {"cells": every})
    return made


def _largest_contributors(tables: CellTables, item: TableCells, cells: Iterable[int]) -> exp.Query:
    workspace = tables.workspace
    columns = {"cell": "bigint", "contributors": "bigint", "amount": "bigint"}
    unsafe = workspace.load("unsafe", columns, ((cell, 0, 0) for cell in sorted(cells)))
    digits = [(place, tables.dimension(place).below, tables.dimension(place).above) for place in item.places]
    finest = workspace.make("finest", select("cell", source=table(item.contributions)).distinct())
    pairs = workspace.make("ancestors", cell_ancestors(finest, tables.up, unsafe, digits))
    relations = {"contributions": item.contributions, "ancestors": pairs}
    return select("lone", source=table(workspace.bound("largest", "largest_contributors", relations)))


def _known_bounds(
    value: np.ndarray[Any, np.dtype[np.float64]], contributors: np.ndarray[Any, np.dtype[np.int64]],
    settings: Suppression,
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:  # fmt: skip
    low, high = np.zeros(len(value)), np.full(len(value), np.inf)
    if settings.known_within is not None:
        low = np.maximum(0.0, value * (1 - settings.known_within))
        high = value * (1 + settings.known_within)
    if settings.zeros == "known":
        low[contributors == 0] = high[contributors == 0] = 0.0
    return low, high


def _apply_earlier(
    tables: CellTables, earlier: EarlierPattern | None, variables: Mapping[tuple[Measure, int], int],
    places: Mapping[int, int], forced: Flags,
) -> Flags:  # fmt: skip
    """What was always hidden stays so; what was shown once is known, and helps nobody. The variables of the latter."""
    fixed = np.zeros(len(variables), dtype=bool)
    for item in tables.tables if earlier is not None else ():
        assert earlier is not None
        for cell in earlier.shown.get(item.name, ()):
            if (variable := variables.get((measure_of(item), cell))) is not None:
                fixed[variable] = True
    for item in tables.tables if earlier is not None else ():
        assert earlier is not None
        for cell in earlier.hidden.get(item.name, ()):
            variable = variables.get((measure_of(item), cell))
            if variable is not None and not fixed[variable]:
                forced[places[cell]] = True
    return fixed


def _read_equations(
    tables: CellTables, variables: Mapping[tuple[Measure, int], int]
) -> tuple[Indices, Indices, np.ndarray[Any, np.dtype[np.float64]]]:
    rows: list[int] = []
    columns: list[int] = []
    signs: list[float] = []
    numbers: dict[tuple[Measure, int, int], int] = {}
    for item in tables.tables:
        measure = measure_of(item)
        before = set(numbers)
        for total, part, dimension in tables.engine.query(
            select("total", "part", "dimension", source=table(item.members))
        ):
            key = (measure, int(total), int(dimension))
            if key in before:  # an equation that another table has too
                continue
            if key not in numbers:
                numbers[key] = len(numbers)
                rows.append(numbers[key])
                columns.append(variables[measure, int(total)])
                signs.append(-1.0)
            rows.append(numbers[key])
            columns.append(variables[measure, int(part)])
            signs.append(1.0)
    return np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64), np.array(signs, dtype=np.float64)


def _weights(
    value: np.ndarray[Any, np.dtype[np.float64]], place: Indices, variables: Mapping[tuple[Measure, int], int],
    settings: Suppression,
) -> np.ndarray[Any, np.dtype[np.float64]]:  # fmt: skip
    """What it costs to hide a place. Values of several measures are brought to the total of the first one."""
    size = int(place.max()) + 1 if len(place) else 0
    if settings.weight == "cells":
        return np.ones(size)
    measures = list(dict.fromkeys(measure for measure, _ in variables))
    scaled = value.copy()
    if len(measures) > 1:
        which = np.zeros(len(value), dtype=np.int64)
        for (measure, _), variable in variables.items():
            which[variable] = measures.index(measure)
        greatest = [float(value[which == number].max(initial=0.0)) or 1.0 for number in range(len(measures))]
        scaled = value * np.array([greatest[0] / own for own in greatest])[which] / len(measures)
    found = np.bincount(place, weights=scaled, minlength=size)
    found = np.maximum(found, 1e-9)
    # An empty cell costs something too: it is not hidden without need.
    return np.log1p(found) if settings.weight == "log" else np.where(found <= 1e-9, 1.0, found)


def _read_intruders(
    tables: CellTables, alone: Mapping[tuple[str, int], set[int]], variables: Mapping[tuple[Measure, int], int],
    lone: Mapping[str, str],
) -> list[Intruder]:  # fmt: skip
    """Contributors who are alone in some cell or have the largest part of an unsafe one, with what they brought to all
    others."""
    brought: dict[tuple[str, int], dict[int, float]] = {}
    for item in tables.tables:
        names = lone.get(_who(tables.policy, item))
        if names is None:
            continue
        relations = {"contributions": item.contributions, "lone_contributors": names}
        rolled = tables.workspace.bound("held", "held_contributions", relations)
        for place in item.places:
            dimension = tables.dimension(place)
            digits = {"dimension": place, "below": dimension.below, "above": dimension.above}
            rolled = tables.workspace.bound("held", "roll_up_contributions", {"contributions": rolled, "up": tables.up},
                                            **digits)  # fmt: skip
        relations = {"contributions": rolled, "lone_contributors": names}
        held = tables.workspace.bound("held", "lone_contributions", relations)
        for cell, number, amount in tables.engine.query(select("cell", "number", "amount", source=table(held))):
            variable = variables[measure_of(item), int(cell)]
            brought.setdefault((names, int(number)), {})[variable] = float(amount)
    found = []
    for key in sorted({*alone, *brought}):
        own = alone.get(key, set())
        parts = {variable: amount for variable, amount in brought.get(key, {}).items() if variable not in own}
        found.append(
            Intruder(
                np.array(sorted(own), dtype=np.int64),
                np.array(list(parts), dtype=np.int64),
                np.array(list(parts.values()), dtype=np.float64),
            )
        )
    return found


def select_release(
    tables: CellTables, read: ReadTables, hidden: Flags, workspace: Workspace, changed: Mapping[str, str] | None = None
) -> exp.Query:
    """The release under a pattern: hidden cells are NULL, whatever the reason. `changed` are relations (cell, value) by
    table that are shown in place of the cells."""
    rows = [(name, cell, int(hidden[place])) for name, own in read.published.items() for cell, place in own.items()]
    pattern = workspace.load("pattern", {"statistic": "text", "cell": "bigint", "hidden": "int"}, rows)
    columns = {
        place: (dimension.name, dimension.below, dimension.above, dimension.labels[0])
        for place, dimension in enumerate(tables.dimensions, start=1)
    }
    shown = changed or {}
    listed = [(item.name, shown.get(item.name, item.cells), item.places, item.whole) for item in tables.tables]
    return released_rows(listed, columns, tables.nodes, pattern, (STATISTIC, VALUE))
