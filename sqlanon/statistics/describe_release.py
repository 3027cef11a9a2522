"""Tables of statistics as a reader sees them, for the report: maps of what is shown and hidden, and how much by level.

Nothing here tells an unsafe cell from one that is hidden to help it, and no cell has an interval. How far shown values
are from the true ones is told by level only, and only of many cells together: of one cell it would be its true value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlanon.engines import Engine
from sqlanon.policy import Source
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.policy.table_protection import Suppression
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import select, table
from sqlanon.statistics.cell_tables import CellTables, TableCells, Workspace, make_cells
from sqlanon.statistics.dimensions import Dimension
from sqlanon.statistics.protection_task import ReadTables, read_tables
from sqlanon.statistics.written_table import TOLERANCE, read_written

MOST_DRAWN = 3_000  # cells of one table; what is finer is counted by level
MOST_ROWS, MOST_COLUMNS = 80, 24
FEWEST = 10  # shown cells of which it is told together how many are changed, and how far
NOT_PUBLISHED = ""

Level = tuple[int, ...]


@dataclass
class _LevelCount:
    """The cells of one level of a table: how many are hidden or changed, and how much of the value that is."""

    cells: int = 0
    hidden: int = 0
    changed: int = 0
    distance: list[float] = field(default_factory=list)  # of shown cells with a value, as a share of it
    value: float = 0.0
    hidden_value: float = 0.0


@dataclass(frozen=True)
class ShownCells:
    """What was measured on the cells of a table that are shown and not empty."""

    name: str
    cells: int
    fewest: int | None  # contributors in the cell that has fewest
    largest: float | None  # share of the largest contributor, where amounts are summed up and looked at

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "cells": self.cells, "fewest": self.fewest, "largest": self.largest}


def describe_release(
    policy: StatisticsPolicy, engine: Engine, name: str
) -> tuple[list[dict[str, Any]], list[ShownCells]]:
    """The tables of a release with their maps, and what its shown cells are made of, as the source is now."""
    workspace = Workspace(engine)
    try:
        tables = make_cells(policy, engine, workspace, exact_counts=True)
        # Who attacks does not matter here.
        read = read_tables(tables, Suppression(singletons="ignore"))
        rows = relation(engine.resolve(Source(table=name)), engine.dialect)
        written = read_written(tables, rows).values
        described, measured = [], []
        for item in tables.tables:
            values = {
                cell: value for cell, value in written.get(item.name, {}).items() if cell in read.published[item.name]
            }
            described.append(_describe_table(tables, read, item, values))
            measured.append(_measure_shown(tables, read, item, values))
        return described, measured
    finally:
        workspace.drop()


def _describe_table(
    tables: CellTables, read: ReadTables, item: TableCells, values: Mapping[int, float | None]
) -> dict[str, Any]:
    dimensions = [tables.dimension(place) for place in item.places]
    maps, left_out, cut = _draw_maps(dimensions, values)
    by_rule: dict[str, int] = {}
    for name, rule, _, _ in read.unsafe:
        if name == item.name:
            by_rule[rule] = by_rule.get(rule, 0) + 1
    return {
        "name": item.name,
        "by": list(item.statistic.by),
        "of": item.statistic.of,
        "rules": [
            f"{use.name} {', '.join(f'{key} = {value}' for key, value in use.params.items())}".strip()
            for use in item.statistic.rules
        ],
        "by_rule": by_rule,
        "cells": len(values),
        "hidden": sum(value is None for value in values.values()),
        "depths": [max(dimension.depths) for dimension in dimensions],
        "levels": _count_levels(read, item, dimensions, values),
        "maps": maps,
        "maps_left_out": left_out,
        "cut": cut,
    }


# ---- by level


def _count_levels(
    read: ReadTables, item: TableCells, dimensions: Sequence[Dimension], values: Mapping[int, float | None]
) -> list[dict[str, Any]]:
    found: dict[Level, _LevelCount] = {}
    for cell, shown in values.items():
        level = tuple(dimension.depths[dimension.node_of(cell)] for dimension in dimensions)
        own = float(read.task.system.value[read.variable(item, cell)])
        count = found.setdefault(level, _LevelCount())
        count.cells += 1
        count.value += own
        if shown is None:
            count.hidden += 1
            count.hidden_value += own
        else:
            count.changed += abs(shown - own) > TOLERANCE * max(1.0, abs(own))
            if own:
                count.distance.append(abs(shown - own) / abs(own))
    total = values.get(0)
    return [_level_json(level, count, total) for level, count in sorted(found.items())]


def _level_json(level: Level, count: _LevelCount, total: float | None) -> dict[str, Any]:
    made: dict[str, Any] = {"level": list(level), "cells": count.cells, "hidden": count.hidden}
    # What is hidden of a whole level follows from the total anyway; of a part of one it would be news.
    if total and math.isclose(count.value, total, rel_tol=1e-9):
        made["hidden_value"] = float(f"{count.hidden_value / count.value:.2g}")
    if count.changed and count.cells - count.hidden >= FEWEST:
        made["changed"] = count.changed
        if len(count.distance) >= FEWEST:
            made["change"] = float(f"{sum(count.distance) / len(count.distance):.2g}")
    return made


# ---- the table as a table


def _tree_order(dimension: Dimension) -> list[int]:
    """Nodes with those above them first, each followed by what is below it."""
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(dimension.parents):
        if node:
            below.setdefault(parent, []).append(node)
    found, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += reversed(below.get(node, []))
    return found


def _cut_nodes(dimension: Dimension, most: int) -> tuple[list[int], bool]:
    """The nodes of as many levels as can be drawn; the first one in any case."""
    depth = max(dimension.depths)
    order = _tree_order(dimension)
    while depth > 0 and sum(dimension.depths[node] <= depth for node in order) > most:
        depth -= 1
    return [node for node in order if dimension.depths[node] <= depth], depth < max(dimension.depths)


def _draw_maps(
    dimensions: Sequence[Dimension], values: Mapping[int, float | None]
) -> tuple[list[dict[str, Any]], int, bool]:
    """A map of the first two dimensions for each combination of the others, from the totals down."""
    down, across = dimensions[0], dimensions[1] if len(dimensions) > 1 else None
    if across is not None and len(down.labels) < len(across.labels):
        down, across = across, down
    rows, cut = _cut_nodes(down, MOST_ROWS)
    columns, cut_across = _cut_nodes(across, MOST_COLUMNS) if across is not None else ([0], False)
    rest = [dimension for dimension in dimensions if dimension is not down and dimension is not across]
    combined = sorted(
        itertools.product(*(_tree_order(dimension) for dimension in rest)),
        key=lambda nodes: sum(dimension.depths[node] for dimension, node in zip(rest, nodes, strict=True)),
    )
    made: list[dict[str, Any]] = []
    most = max(1, MOST_DRAWN // (len(rows) * len(columns)))
    for nodes in combined[:most]:
        start = sum(node * dimension.stride for dimension, node in zip(rest, nodes, strict=True))
        cells = [
            [_shown(values, start + row * down.stride + (node * across.stride if across else 0)) for node in columns]
            for row in rows
        ]
        fixed = {dimension.name: dimension.labels[node] for dimension, node in zip(rest, nodes, strict=True)}
        made.append(
            {
                "row": down.name,
                "column": across.name if across is not None else None,
                "fixed": fixed,
                "rows": _labels(down, rows),
                "columns": _labels(across, columns) if across is not None else [],
                "cells": cells,
            }
        )
    return made, max(0, len(combined) - most), cut or cut_across


def _shown(values: Mapping[int, float | None], cell: int) -> float | str | None:
    """A value; None where it is hidden."""
    return values.get(cell, NOT_PUBLISHED)


def _labels(dimension: Dimension, nodes: Iterable[int]) -> list[list[Any]]:
    return [[dimension.labels[node], dimension.depths[node]] for node in nodes]


# ---- what shown cells are made of


def _measure_shown(
    tables: CellTables, read: ReadTables, item: TableCells, values: Mapping[int, float | None]
) -> ShownCells:
    shown = {cell for cell, value in values.items() if value is not None}
    counts = [int(read.contributors[read.variable(item, cell)]) for cell in shown]
    first = {
        int(cell): float(amount)
        for cell, amount, place in tables.engine.query(select("cell", "amount", "place", source=table(item.tops)))
        if int(place) == 1
    }
    shares = []
    for cell in shown & set(first):
        whole = float(read.task.system.value[read.variable(item, cell)])
        if whole > 0:
            shares.append(first[cell] / whole)
    return ShownCells(
        item.name,
        sum(count > 0 for count in counts),
        min((count for count in counts if count > 0), default=None),
        max(shares, default=None) if item.statistic.of is not None else None,
    )
