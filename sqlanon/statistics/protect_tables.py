"""Choose the cells that are hidden, as the policy asks."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlanon.policy.statistics import Suppression
from sqlanon.statistics.audit import Auditor
from sqlanon.statistics.flow_program import SolverClock
from sqlanon.statistics.suppression_exact import SearchResult, search_least_cost
from sqlanon.statistics.suppression_heuristic import search_pattern
from sqlanon.statistics.table_system import Flags, Task

EXACT_UP_TO = 5_000  # cells


@dataclass(frozen=True)
class Protection:
    """A pattern, how it was found, and what that took."""

    hidden: Flags
    search: str
    cost: float
    bound: float | None  # what any pattern costs at least, where that was looked for
    seconds: float
    solver_seconds: float
    programs: int

    @property
    def proven(self) -> bool:
        return self.gap == 0

    @property
    def gap(self) -> float | None:
        """The share of its cost that a better pattern could save at most; None if that is not known."""
        if self.bound is None:
            return None if self.cost > 0 else 0.0
        return SearchResult(self.hidden, self.cost, self.bound).gap


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
