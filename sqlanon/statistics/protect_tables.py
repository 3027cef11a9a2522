"""Protect tables as the policy asks: choose the cells that are hidden, or the values that are shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.policy.table_protection import Suppression
from sqlanon.statistics.audit import Auditor
from sqlanon.statistics.cell_tables import CellTables
from sqlanon.statistics.changed_tables import ChangedValues, change_tables
from sqlanon.statistics.flow_program import SolverClock
from sqlanon.statistics.hierarchical_search import hide_by_level
from sqlanon.statistics.hypercube import hide_cubes
from sqlanon.statistics.protection_task import ReadTables
from sqlanon.statistics.suppression_exact import SearchResult, search_least_cost
from sqlanon.statistics.suppression_heuristic import publish_again, search_pattern, suppress_cells
from sqlanon.statistics.table_system import Flags, Task

EXACT_UP_TO = 5_000  # cells


@dataclass(frozen=True)
class Protection:
    """A pattern, or the values that are shown in place of one, how it was found, and what that took."""

    hidden: Flags
    search: str
    cost: float
    bound: float | None  # what any pattern costs at least, where that was looked for
    seconds: float
    solver_seconds: float
    programs: int
    changed: ChangedValues | None = None
    added: int | None = None  # cells that the heuristic had to hide after another search

    @property
    def proven(self) -> bool:
        return self.gap == 0

    @property
    def gap(self) -> float | None:
        """The share of its cost that a better pattern could save at most; None if that is not known."""
        if self.bound is None:
            return None if self.cost > 0 else 0.0
        return SearchResult(self.hidden, self.cost, self.bound).gap


def protect_cells(
    policy: StatisticsPolicy, tables: CellTables, read: ReadTables, secret: str | None,
    earlier: Mapping[int, float] | None = None,
) -> Protection:  # fmt: skip
    """What the method of a policy makes of its tables. Raises NotReleased if it cannot protect them."""
    given = policy.protect.suppression
    if given is not None and given.search in STARTS:
        return _protect_from(STARTS[given.search], tables, read, given)
    if given is not None:
        return protect_tables(read.task, given)
    made = change_tables(policy, tables, read, secret, earlier)
    nothing = np.zeros(read.task.system.places, dtype=bool)
    return Protection(
        nothing, made.search, made.cost, made.bound, made.seconds, made.solver_seconds, made.programs, made
    )


Start = Callable[[CellTables, ReadTables, Suppression, SolverClock], Flags]
STARTS: Mapping[str, Start] = {
    "hypercube": lambda tables, read, settings, _: hide_cubes(tables, read, settings),
    "hierarchical": hide_by_level,
}


def _protect_from(start: Start, tables: CellTables, read: ReadTables, settings: Suppression) -> Protection:
    """A pattern made part by part: what it leaves open in the whole is closed by the heuristic."""
    began = time.perf_counter()
    auditor = Auditor(read.task, SolverClock())
    first = start(tables, read, settings, auditor.clock)
    hidden = suppress_cells(auditor, first)
    added = int((hidden & ~first).sum())
    if settings.search == "hierarchical":  # cubes are left as the database found them
        auditor.clock.set_limit(max(0.0, settings.seconds - (time.perf_counter() - began)))
        hidden = publish_again(auditor, hidden)
        auditor.clock.set_limit(None)
    took = time.perf_counter() - began
    clock = auditor.clock
    return Protection(
        hidden, settings.search, read.task.cost(hidden), None, took, clock.solving, clock.programs, added=added
    )


def protect_tables(task: Task, settings: Suppression) -> Protection:
    """The pattern for a task. Raises NotReleased if no pattern protects it."""
    began = time.perf_counter()
    exact = settings.search == "exact" or (settings.search == "by_size" and task.system.cells <= EXACT_UP_TO)
    auditor = Auditor(task, SolverClock())
    if exact:
        found = search_least_cost(task, settings.seconds, auditor)
        hidden, bound = found.hidden, found.bound
    else:
        hidden, auditor = search_pattern(task, settings.seconds)
        bound = None
    return Protection(
        hidden, "exact" if exact else "heuristic", task.cost(hidden), bound, time.perf_counter() - began,
        auditor.clock.solving, auditor.clock.programs,
    )  # fmt: skip
