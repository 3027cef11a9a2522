"""What tables lose whose values are changed: how far these lie from the true ones, and whether totals still hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlanon.statistics.cell_tables import CellTables
from sqlanon.statistics.changed_tables import ChangedValues, published_variables, sum_gaps
from sqlanon.statistics.protection_task import ReadTables
from sqlanon.statistics.table_system import Numbers


def measure_changes(tables: CellTables, read: ReadTables, changed: ChangedValues) -> dict[str, Any]:
    """Numbers of all published cells together, none of a named cell.

    `distance` is the sum of all changes, `mean_relative` the mean change as a share of the value (of cells above 0),
    `hellinger` the distance between the distributions of the finest cells by table, and `additivity_gap` the mean
    difference between a total and the sum of its parts.
    """
    task = read.task
    seen = published_variables(tables, read)
    value, shown = task.system.value, np.where(seen, changed.values, np.nan)
    moved = np.abs(shown - value)[seen]
    filled = value[seen] > 0
    gaps = np.abs(sum_gaps(task, shown))
    gaps = gaps[np.isfinite(gaps)]
    return {
        "changed": int((moved > 1e-9).sum()),
        "distance": _short(moved.sum()),
        "greatest": _short(moved.max(initial=0.0)),
        "mean_relative": _short((moved[filled] / value[seen][filled]).mean() if filled.any() else 0.0),
        "hellinger": {item.name: _short(_of_finest(tables, read, changed.values, item.name)) for item in tables.tables},
        "additivity_gap": _short(gaps.mean() if len(gaps) else 0.0),
        **changed.facts,
    }


def _of_finest(tables: CellTables, read: ReadTables, values: Numbers, name: str) -> float:
    item = next(item for item in tables.tables if item.name == name)
    leaves = {place: frozenset(tables.dimension(place).leaves) for place in item.places}
    finest = [
        read.variable(item, cell)
        for cell in read.published[name]
        if all(tables.dimension(place).node_of(cell) in own for place, own in leaves.items())
    ]
    return hellinger(read.task.system.value[finest], np.maximum(values[finest], 0.0))


def hellinger(first: Numbers, second: Numbers) -> float:
    """The distance of two distributions, given as amounts: 0 if they are the same, 1 if they have nothing in common.

    >>> round(hellinger(np.array([1.0, 1.0]), np.array([2.0, 0.0])), 4)
    0.5412
    """
    if not first.sum() or not second.sum():
        return 0.0 if first.sum() == second.sum() else 1.0
    roots = np.sqrt(first / first.sum()) - np.sqrt(second / second.sum())
    return float(np.sqrt(0.5 * (roots**2).sum()))


def _short(number: float) -> float:
    return float(f"{float(number):.6g}")
