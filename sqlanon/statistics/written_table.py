"""Read a table of statistics as it was written, and audit it as an attacker would who has nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from sqlanon.errors import NotReleased
from sqlanon.policy.statistics import STATISTIC, VALUE
from sqlanon.sqltree.tree import column, double, nest_query, select, text
from sqlanon.statistics.audit import Auditor, Lack
from sqlanon.statistics.cell_tables import CellTables
from sqlanon.statistics.protection_task import ReadTables
from sqlanon.statistics.table_system import Flags

TOLERANCE = 1e-9  # of a value


@dataclass(frozen=True)
class WrittenTable:
    """What a table shows: cells by table, each with its value or None where it is hidden."""

    values: Mapping[str, Mapping[int, float | None]]
    problems: tuple[str, ...]


def read_written(tables: CellTables, rows: exp.Select) -> WrittenTable:
    """The cells that a relation shows. Whatever is not a cell of the policy, or is there twice, is a problem."""
    engine, names = tables.engine, [dimension.name for dimension in tables.dimensions]
    known = {item.name for item in engine.columns(rows)}
    missing = [name for name in (STATISTIC, *names, VALUE) if name not in known]
    if missing:
        return WrittenTable({}, (f"the table has no column '{missing[0]}'",))
    chosen = [text(column(STATISTIC)), *(text(column(name)) for name in names), double(column(VALUE))]
    values: dict[str, dict[int, float | None]] = {item.name: {} for item in tables.tables}
    strange = twice = 0
    for statistic, *labels, value in engine.query(select(*chosen, source=nest_query(rows, "written"))):
        cell = _cell_of(tables, statistic, labels)
        if cell is None or statistic not in values:
            strange += 1
        elif cell in values[statistic]:
            twice += 1
        else:
            values[statistic][cell] = None if value is None else float(value)
    problems = []
    if strange:
        problems.append(f"{strange:,} rows are no cell of the policy's tables")
    if twice:
        problems.append(f"{twice:,} cells are there more than once")
    return WrittenTable(values, tuple(problems))


def _cell_of(tables: CellTables, statistic: str, labels: Sequence[Any]) -> int | None:
    item = next((item for item in tables.tables if item.name == statistic), None)
    if item is None:
        return None
    cell = 0
    for place, (dimension, label) in enumerate(zip(tables.dimensions, labels, strict=True), start=1):
        node = dimension.numbers.get(label)
        if node is None or (node and place not in item.places):
            return None
        cell += node * dimension.stride
    return cell


def pattern_of(tables: CellTables, read: ReadTables, written: WrittenTable) -> tuple[Flags, tuple[str, ...]]:
    """Which places a table hides, and where it is not what the rows say. A place that is shown once is shown."""
    shown = np.zeros(read.task.system.places, dtype=bool)
    wrong = missing = 0
    for item in tables.tables:
        values = written.values.get(item.name, {})
        for cell, place in read.published[item.name].items():
            if cell not in values:
                missing += 1
                continue
            value = values[cell]
            if value is None:
                continue
            shown[place] = True
            own = float(read.task.system.value[read.variable(item, cell)])
            wrong += abs(value - own) > TOLERANCE * max(1.0, abs(own))
        for cell in values:
            if cell not in read.published[item.name]:
                place = int(read.task.system.place[read.variable(item, cell)])
                shown[place] |= values[cell] is not None
    problems = list(written.problems)
    if missing:
        problems.append(f"{missing:,} cells are missing")
    if wrong:
        problems.append(f"{wrong:,} cells show another value than the source has now")
    return ~shown, tuple(problems)


def audit_pattern(read: ReadTables, hidden: Flags) -> list[Lack]:
    """What an attacker can bound too tightly, given what is hidden."""
    return shown_primaries(read, hidden) + [
        lack for lack in Auditor(read.task).find_lacks(hidden) if hidden[_place(read, lack.primary)]
    ]


def _place(read: ReadTables, primary: int) -> int:
    return int(read.task.system.place[read.task.primaries.cell[primary]])


def shown_primaries(read: ReadTables, hidden: Flags) -> list[Lack]:
    """Unsafe cells that are shown, also those with a level of 0."""
    return [
        Lack(0, primary, 0, 0.0) for primary in range(len(read.task.primaries)) if not hidden[_place(read, primary)]
    ]


def require_safe_table(tables: CellTables, read: ReadTables, rows: exp.Select) -> None:
    """Refuse a table that, as it was written, does not protect every unsafe cell."""
    hidden, problems = pattern_of(tables, read, read_written(tables, rows))
    lacks = audit_pattern(read, hidden)
    if problems or lacks:
        cells = len({lack.primary for lack in lacks})
        detail = [*problems, *([f"{cells:,} unsafe cells can be computed too closely"] if cells else [])]
        raise NotReleased(
            "the release was not published: as written it does not protect its cells",
            detail="\n".join(detail),
            hint="the previous release, if any, is still in place; was the source changed meanwhile?",
        )
