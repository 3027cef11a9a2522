"""Attacks that bound cells by linear programs: by everybody, and by contributors who know their own amounts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sqlanon.statistics.audit import Auditor, find_intervals
from sqlanon.statistics.table_system import OUTSIDER, Flags, Task

EXACTLY = 1e-6  # of a value: an interval that is narrower tells it


@dataclass(frozen=True)
class TableAttack:
    """What one attack achieves: unsafe cells that it bounds more closely than the rules allow, and those it knows."""

    name: str
    broken: int
    exact: int
    narrowest: float | None  # width of the narrowest interval of a broken cell, as a share of its value
    about: str = ""  # what else it found

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def as_outsider(task: Task) -> Task:
    return replace(task, intruders=(OUTSIDER,))


def as_singleton(task: Task) -> Task:
    """Contributors know the cells where they are alone, and nothing more."""
    return replace(task, intruders=(OUTSIDER, *(replace(each, uses_parts=False) for each in task.intruders[1:])))


def as_holding(task: Task) -> Task:
    """They also know the part that they have in other cells; and so do those who have most of an unsafe cell."""
    return task


ATTACKERS: dict[str, Callable[[Task], Task]] = {
    "outsider": as_outsider,
    "singleton": as_singleton,
    "holding": as_holding,
}


def bound_cells(name: str, task: Task, hidden: Flags, shown: Collection[int] = ()) -> TableAttack:
    """Which primaries the attackers of a task bound too closely, beside those that are shown as they are."""
    place = task.system.place[task.primaries.cell]
    lacks = [lack for lack in Auditor(task).find_lacks(hidden) if hidden[place[lack.primary]]]
    exact, widths = set(shown), [0.0] * len(shown)
    by_attacker: dict[int, set[int]] = {}
    for lack in lacks:
        by_attacker.setdefault(lack.who, set()).add(lack.primary)
    for who, primaries in by_attacker.items():
        cells = {int(task.primaries.cell[primary]): primary for primary in primaries}
        for cell, (low, high) in find_intervals(task, hidden, cells, who).items():
            size = max(abs(float(task.system.value[cell])), 1e-9)
            widths.append((high - low) / size)
            if high - low <= EXACTLY * max(1.0, size):
                exact.add(cells[cell])
    broken = set(shown) | {lack.primary for lack in lacks}
    narrowest = min((width for width in widths if np.isfinite(width)), default=None)
    return TableAttack(name, len(broken), len(exact), narrowest)
