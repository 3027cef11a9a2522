"""Build a hierarchy for the values of a column, from the table that it is in.

Values are alike if rows that have them are alike in the other columns. The engine counts values beside the groups of
other columns; what comes back is a table of values and groups, not of rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import HierarchyError
from sqlanon.evidence.suggest_roles import ColumnFacts
from sqlanon.evidence.value_tree import ROOT, Row, ValueCounts, build_tree, choose_group_numbers
from sqlanon.sqltree.tree import alias, case, column, count_all, double, literal, select, text, union_all

MOST_VALUES = 5_000
FEATURES = 8  # other columns
MOST_GROUPS = 12  # values of another column
BINS = 4  # of numbers
SMOOTHING = 5.0  # rows: a value with fewer is taken to be like the average
Method = Literal["likeness", "frequency"]


def grow_hierarchy(
    engine: Engine,
    rows: exp.Select,
    target: ColumnFacts,
    others: Sequence[ColumnFacts],
    *,
    numbers: Sequence[int] | None = None,
    levels: int | None = None,
    method: Method = "likeness",
) -> list[Row]:
    """The rows of a hierarchy file: a balanced tree of the values of a column."""
    if target.distinct < 2:
        raise HierarchyError(f"'{target.name}' has fewer than two values", hint="there is nothing to group")
    if target.distinct > MOST_VALUES:
        raise HierarchyError(
            f"'{target.name}' has {target.distinct:,} values; a tree is built for {MOST_VALUES:,} at most",
            hint="choose a computed kind, such as prefix or intervals; 'sqlanon explain prefix' shows one",
        )
    counted = engine.query(_values(rows, target.name))
    values = [str(value) for value, _ in counted]
    records = np.array([float(count) for _, count in counted])
    features = [item for item in others if _is_feature(item, target)][:FEATURES] if method == "likeness" else []
    asked = choose_group_numbers(len(values), levels) if numbers is None else _nested(numbers, len(values))
    if not features:
        # Neighbours in their own order, in groups of about as many rows.
        ranks = np.arange(len(values), dtype=float)[:, None]
        return build_tree(ValueCounts(values, records, ranks), asked)
    found = engine.query(union_all([_beside(rows, target.name, place, item) for place, item in enumerate(features)]))
    return build_tree(ValueCounts(values, records, _places(values, found)), asked)


def _nested(numbers: Sequence[int], values: int) -> list[int]:
    chosen = sorted(set(numbers), reverse=True)
    if not chosen or chosen[-1] < 2 or chosen[0] >= values:
        raise HierarchyError(
            f"{', '.join(map(str, numbers))} groups do not fit {values:,} values",
            hint=f"a level has from 2 to {values - 1:,} groups" if values > 2 else "there is nothing to group",
        )
    return chosen


def _values(rows: exp.Select, name: str) -> exp.Select:
    value = alias(text(column(name)), "value")
    listed = rows.select(value, append=False).where(column(name).is_(exp.Null()).not_()).subquery(alias="listed")
    return select("value", alias(count_all(), "records"), source=listed, groups=["value"]).order_by("value")


def _is_feature(item: ColumnFacts, target: ColumnFacts) -> bool:
    if item.name == target.name or not item.comparable or item.constant:
        return False
    return 1 < item.distinct <= MOST_GROUPS or (item.low is not None and item.low != item.high)


def _beside(rows: exp.Select, name: str, place: int, item: ColumnFacts) -> exp.Query:
    """How many rows have a value of the target and one of the groups of another column."""
    group = text(column(item.name)) if item.distinct <= MOST_GROUPS else _bin(item)
    listed = rows.select(alias(text(column(name)), "value"), alias(group, "part"), append=False)
    known = listed.where(column(name).is_(exp.Null()).not_()).subquery(alias="listed")
    chosen: list[exp.Expr | str] = [alias(literal(place), "place"), "value", "part", alias(count_all(), "records")]
    return select(*chosen, source=known, groups=["value", "part"])


def _bin(item: ColumnFacts) -> exp.Expr:
    """Which of a few bands a number lies in; the first and the last are open."""
    assert item.low is not None and item.high is not None
    value = double(column(item.name))
    edges = [float(item.low + (item.high - item.low) * part / BINS) for part in range(1, BINS)]
    unknown = exp.or_(
        column(item.name).is_(exp.Null()), exp.Sub(this=value.copy(), expression=value.copy()).neq(literal(0))
    )
    branches: list[tuple[exp.Expr, exp.Expr]] = [(unknown, literal("unknown"))]
    branches += [(value.copy() < literal(edge), literal(str(place))) for place, edge in enumerate(edges)]
    return case(*branches, default=literal(str(len(edges))))


def _places(values: Sequence[str], found: Sequence[tuple[Any, ...]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The distribution of each value over the groups of the other columns, on a scale where distances add up."""
    at = {value: place for place, value in enumerate(values)}
    groups = sorted({(place, part is None, part or "") for place, _, part, _ in found})
    columns = {group: place for place, group in enumerate(groups)}
    counts = np.zeros((len(values), len(groups)))
    for place, value, part, records in found:
        counts[at[str(value)], columns[(place, part is None, part or "")]] += float(records)
    features = np.array([group[0] for group in groups])
    for feature in set(features.tolist()):
        own = features == feature
        block = counts[:, own]
        average = block.sum(axis=0) / block.sum()
        counts[:, own] = np.sqrt((block + SMOOTHING * average) / (block.sum(axis=1, keepdims=True) + SMOOTHING))
    return counts


def read_levels(engine: Engine, rows: exp.Select, target: str, coarser: Sequence[str]) -> list[Row] | None:
    """A hierarchy that the table holds itself: columns that follow from the target, from fine to coarse.

    None if a column does not follow from the one before.
    """
    chosen = [alias(text(column(name)), f"c{place}") for place, name in enumerate((target, *coarser))]
    found = engine.query(rows.select(*chosen, append=False).where(column(target).is_(exp.Null()).not_()).distinct())
    rows_ = [tuple("(none)" if label is None else str(label) for label in row) for row in found]
    parents: dict[tuple[int, str], set[str]] = {}
    for row in rows_:
        for level in range(len(row) - 1):
            parents.setdefault((level, row[level]), set()).add(row[level + 1])
    if any(len(above) > 1 for above in parents.values()):
        return None
    return [(*row, ROOT) for row in sorted(rows_, key=lambda row: row[::-1])]


def list_values(engine: Engine, rows: exp.Select, name: str) -> list[str]:
    """The values of a column as text."""
    return [str(value) for value, _ in engine.query(_values(rows, name))]


def group_dates(values: Sequence[str]) -> list[Row]:
    """Dates in text by month and year: 2024-01-31, or 31.01.2024 where the day comes first.

    >>> group_dates(["2024-01-31 10:00", "31.12.1990"])
    [('31.12.1990', '1990', '1990', '*'), ('2024-01-31 10:00', '2024-01', '2024', '*')]
    """
    made: list[Row] = []
    for value in values:
        if re.match(r"[0-9]{4}-[0-9]{2}", value):
            made.append((value, value[:7], value[:4], ROOT))
        else:
            year = re.search(r"([0-9]{2,4})$", value)
            label = year[1] if year else "not a date"
            made.append((value, label, label, ROOT))
    return sorted(made, key=lambda row: row[::-1])
