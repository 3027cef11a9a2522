"""Linear programs over the equations of a table, solved by HiGHS.

A variable is how far a cell deviates from its value, so that the right side of every equation is 0 and rounding in
floating sums does not matter.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from sqlanon.errors import EngineError, SourceError
from sqlanon.statistics.table_system import Indices, Numbers, TableSystem

CLOSE = 1e-7  # what a solver of floating numbers cannot tell from 0


def load_solver() -> Any:
    """The module of the solver."""
    try:
        import highspy
    except ImportError:
        raise SourceError(
            "tables of statistics are protected with the solver HiGHS, which is not installed",
            hint="pip install 'sqlanon[tables]'",
        ) from None
    return highspy


class SolverClock:
    """How long the solver itself worked, and how long it may."""

    def __init__(self, limit: float | None = None) -> None:
        self.solving = 0.0
        self.programs = 0
        self._until: float | None = None
        self.set_limit(limit)

    def set_limit(self, seconds: float | None) -> None:
        """How long it may go on from now."""
        self._until = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        return math.inf if self._until is None else self._until - time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.left <= 0


class OutOfTime(Exception):
    """The time for a search is over; what was found until then counts."""


def quiet_model() -> Any:
    """A solver that prints nothing and uses one thread."""
    model = load_solver().Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    return model


def load_program(
    model: Any, columns: tuple[Numbers, Numbers, Numbers], rows: tuple[Numbers, Numbers],
    matrix: tuple[Indices, Indices, Numbers],
) -> None:  # fmt: skip
    """Columns are (cost, low, high), rows (low, high), the matrix is compressed by columns."""
    highspy = load_solver()
    program = highspy.HighsLp()
    cost, low, high = columns
    begins, inside, signs = matrix
    program.num_col_, program.num_row_ = len(cost), len(rows[0])
    program.col_cost_, program.col_lower_, program.col_upper_ = cost, low, high
    program.row_lower_, program.row_upper_ = rows
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = begins.astype(np.int32)
    program.a_matrix_.index_ = inside.astype(np.int32)
    program.a_matrix_.value_ = signs
    if model.passModel(program) == highspy.HighsStatus.kError:
        raise EngineError("the solver refused the equations", hint="are amounts finite, and below 1e15?")


class FlowProgram:
    """Deviations of some cells, all others fixed, that keep every equation."""

    def __init__(self, system: TableSystem, cells: Indices, clock: SolverClock) -> None:
        self.cells, self.clock = cells, clock
        self.at = {cell: place for place, cell in enumerate(cells.tolist())}
        begins, rows, signs = system.entries(cells)
        used, inside = np.unique(rows, return_inverse=True)
        nothing = np.zeros(len(cells))
        self._model = quiet_model()
        zeros = np.zeros(len(used))
        load_program(self._model, (nothing, nothing, nothing), (zeros, zeros), (begins, inside, signs))
        self._all = np.arange(len(cells), dtype=np.int32)
        self._low = self._high = nothing

    def set_bounds(self, low: Numbers, high: Numbers) -> None:
        """How far each cell may deviate."""
        self._low, self._high = low.copy(), high.copy()
        self._model.changeColsBounds(len(self.cells), self._all, self._low, self._high)

    def close_cells(self, cells: Indices) -> None:
        """Fix cells that were free."""
        for cell in cells.tolist():
            if (place := self.at.get(cell)) is not None:
                self._model.changeColBounds(place, 0.0, 0.0)

    def open_cells(self, cells: Indices) -> None:
        """Free cells again that were fixed."""
        for cell in cells.tolist():
            if (place := self.at.get(cell)) is not None:
                self._model.changeColBounds(place, float(self._low[place]), float(self._high[place]))

    def reach(self, cell: int, side: int, most: float = math.inf) -> tuple[float, Numbers]:
        """How far a cell can deviate to a side, at most so far; and all deviations that go with it."""
        place = self.at[cell]
        low, high = float(self._low[place]), float(self._high[place])
        if most < math.inf:
            self._model.changeColBounds(place, max(low, -most), min(high, most))
        self._model.changeColCost(place, -float(side))
        try:
            status = run_solver(self._model, self.clock)
            if status == load_solver().HighsModelStatus.kUnbounded:
                return math.inf, np.zeros(0)
            found = np.array(self._model.getSolution().col_value, dtype=np.float64)
            return max(0.0, side * float(found[place])), found
        finally:
            self._model.changeColCost(place, 0.0)
            if most < math.inf:
                self._model.changeColBounds(place, low, high)

    def price(self, cell: int, side: int) -> tuple[float, Numbers, Numbers]:
        """How far a cell can deviate to a side, all deviations, and what a unit more of each bound would add."""
        place = self.at[cell]
        self._model.changeColCost(place, -float(side))
        try:
            run_solver(self._model, self.clock)
            solution = self._model.getSolution()
            found = np.array(solution.col_value, dtype=np.float64)
            return side * float(found[place]), found, np.array(solution.col_dual, dtype=np.float64)
        finally:
            self._model.changeColCost(place, 0.0)


def run_solver(model: Any, clock: SolverClock) -> Any:
    """Solve, and count the time; the status is optimal, unbounded or infeasible, or an error is raised."""
    statuses = load_solver().HighsModelStatus
    if clock.is_over:
        raise OutOfTime
    if clock.left < math.inf:
        model.setOptionValue("time_limit", model.getRunTime() + clock.left)
    begin = time.perf_counter()
    model.run()
    clock.solving += time.perf_counter() - begin
    clock.programs += 1
    status = model.getModelStatus()
    if status in (statuses.kUnboundedOrInfeasible,):
        model.setOptionValue("presolve", "off")
        model.run()
        model.setOptionValue("presolve", "choose")
        status = model.getModelStatus()
    if status == statuses.kTimeLimit:
        raise OutOfTime
    if status not in (statuses.kOptimal, statuses.kUnbounded, statuses.kInfeasible):
        # Solve once more from nothing before giving up: a bad basis may have been left by the program before.
        model.clearSolver()
        model.run()
        status = model.getModelStatus()
        if status not in (statuses.kOptimal, statuses.kUnbounded, statuses.kInfeasible):
            raise EngineError(
                f"the solver could not decide a program ({model.modelStatusToString(status)})",
                hint="amounts that differ by many powers of ten are hard to solve: publish in thousands",
            )
    return status
