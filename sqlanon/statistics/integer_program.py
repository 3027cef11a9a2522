"""Mixed integer programs over the cells of tables, put together piece by piece and solved by HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sqlanon.errors import NotReleased
from sqlanon.statistics.flow_program import OutOfTime, SolverClock, load_program, load_solver, quiet_model, run_solver
from sqlanon.statistics.table_system import Indices, Numbers


@dataclass(frozen=True)
class IntegerSolution:
    """What the columns are, what that costs, and what any solution costs at least."""

    columns: Numbers
    cost: float
    bound: float


@dataclass
class IntegerProgram:
    """Columns with costs and bounds, and rows over them."""

    clock: SolverClock
    _columns: list[tuple[Numbers, Numbers, Numbers, bool]] = field(default_factory=list)
    _rows: list[tuple[Numbers, Numbers]] = field(default_factory=list)
    _entries: list[tuple[Indices, Indices, Numbers]] = field(default_factory=list)
    _width: int = 0
    _height: int = 0

    def add_columns(self, cost: Numbers, low: Numbers, high: Numbers, *, whole: bool) -> Indices:
        """The numbers of new columns."""
        self._columns.append((cost, low, high, whole))
        self._width += len(cost)
        return np.arange(self._width - len(cost), self._width)

    def add_rows(self, low: Numbers, high: Numbers, *parts: tuple[Indices, Indices, Numbers]) -> None:
        """New rows; each part says which row, counted from 0 here, has which column how often."""
        for rows, columns, amounts in parts:
            self._entries.append((rows + self._height, columns, amounts))
        self._rows.append((low, high))
        self._height += len(low)

    def solve(self, seconds: float | None, start: Numbers | None = None) -> IntegerSolution | None:
        """The cheapest solution, or where the time is over the best one found; None if there is none. Raises OutOfTime
        if none was found in time."""
        cost = self._joined([part[0] for part in self._columns])
        low = self._joined([part[1] for part in self._columns])
        high = self._joined([part[2] for part in self._columns])
        model = quiet_model()
        model.setOptionValue("mip_rel_gap", 0.0)
        model.setOptionValue("mip_abs_gap", 1e-6)
        rows = self._joined([part[0] for part in self._rows]), self._joined([part[1] for part in self._rows])
        load_program(model, (cost, low, high), rows, self._compressed())
        whole = np.concatenate([np.full(len(part[0]), part[3]) for part in self._columns])
        if whole.any():
            integers = np.flatnonzero(whole).astype(np.int32)
            kinds = np.full(len(integers), load_solver().HighsVarType.kInteger)
            model.changeColsIntegrality(len(integers), integers, kinds)
        if start is not None:
            given = load_solver().HighsSolution()
            given.col_value = start.tolist()
            model.setSolution(given)
        self.clock.set_limit(seconds)
        try:
            status = run_solver(model, self.clock)
        except OutOfTime:
            found = model.getInfo()
            if found.primal_solution_status != load_solver().SolutionStatus.kSolutionStatusFeasible:
                raise
            status = load_solver().HighsModelStatus.kOptimal
        finally:
            self.clock.set_limit(None)
        if status != load_solver().HighsModelStatus.kOptimal:
            return None
        columns = np.array(model.getSolution().col_value, dtype=np.float64)
        reached = float(model.getObjectiveValue())
        bound = float(model.getInfo().mip_dual_bound) if whole.any() else reached
        return IntegerSolution(np.where(whole, np.rint(columns), columns), reached, min(reached, bound))

    @staticmethod
    def _joined(parts: Sequence[Numbers]) -> Numbers:
        return np.concatenate([*parts, np.zeros(0)]).astype(np.float64)

    def _compressed(self) -> tuple[Indices, Indices, Numbers]:
        empty: Any = np.zeros(0, dtype=np.int64)
        rows = np.concatenate([*(part[0] for part in self._entries), empty]).astype(np.int64)
        columns = np.concatenate([*(part[1] for part in self._entries), empty]).astype(np.int64)
        amounts = self._joined([part[2] for part in self._entries])
        order = np.lexsort((rows, columns))
        begins = np.searchsorted(columns[order], np.arange(self._width + 1)).astype(np.int64)
        return begins, rows[order], amounts[order]


def out_of_time(what: str, seconds: float) -> NotReleased:
    return NotReleased(
        f"the solver found no {what} within {seconds:g} seconds",
        hint="give it more 'seconds', take coarser hierarchies, or publish fewer tables together; the previous "
        "release, if any, is still in place",
    )
