"""Controlled tabular adjustment: unsafe cells move by their level at least, all others as little as possible.

For each unsafe cell a binary column says whether it moves up. The heuristic takes the directions in turn, the largest
level first, and solves what is left; the exact program begins with its table, whose cost bounds every change.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sqlanon.errors import NotReleased
from sqlanon.statistics.flow_program import OutOfTime, SolverClock
from sqlanon.statistics.integer_program import IntegerProgram, IntegerSolution, out_of_time
from sqlanon.statistics.table_system import Flags, Indices, Numbers, Task

CLOSE = 1e-6  # of a level


@dataclass(frozen=True)
class AdjustedTable:
    """The values, what the changes cost, and what they cost at least; None if that was not looked for."""

    values: Numbers
    cost: float
    bound: float | None


def adjust_table(
    task: Task,
    *,
    whole: Flags,
    weight: Numbers,
    seconds: float,
    exact: bool = True,
    fixed: Mapping[int, float] | None = None,
    clock: SolverClock | None = None,
) -> AdjustedTable:
    """The cheapest table that moves every primary by its level. `whole` are cells whose changes are whole numbers, and
    `weight` is what a change of 1 costs. Raises NotReleased if there is none, or none was found in time."""
    clock, until = clock or SolverClock(), time.monotonic() + seconds
    program = _Adjustment(task, whole, weight, fixed or {}, clock)
    best: IntegerSolution | None = None
    late = False
    for directions in (program.alternate(), program.all_up()):
        try:
            best = program.solve(directions, math.inf, max(0.05, (until - time.monotonic()) / (2 if exact else 1)))
        except OutOfTime:
            late = True
        if best is not None:
            break
    bound = None
    if exact or best is None:
        try:
            most = math.inf if best is None else best.cost
            found = program.solve(None, most, max(0.05, until - time.monotonic()), best)
        except OutOfTime:
            found, late = None, True
        if found is not None:
            bound = found.bound
            best = found if best is None or found.cost < best.cost else best
    if best is None and late:
        raise out_of_time("adjusted table", seconds)
    if best is None:
        raise NotReleased(
            "no table whose totals are sums moves every unsafe cell by its level",
            hint="lower the level of the rule, take a coarser hierarchy, or protect by suppression",
        )
    values = program.values(best)
    return AdjustedTable(values, best.cost, None if bound is None else min(best.cost, bound))


class _Adjustment:
    def __init__(
        self, task: Task, whole: Flags, weight: Numbers, fixed: Mapping[int, float], clock: SolverClock
    ) -> None:
        self.task, self.whole, self.weight, self.clock = task, whole, weight, clock
        system = task.system
        self.low = np.where(system.known, 0.0, system.low - system.value)
        self.high = np.where(system.known, 0.0, system.high - system.value)
        for cell, shown in fixed.items():
            self.low[cell] = self.high[cell] = shown - system.value[cell]
        self.cell = task.primaries.cell
        up = whole[self.cell]
        # Whole changes reach a level where they pass it.
        self.upper = np.where(up, np.ceil(task.primaries.upper - CLOSE), task.primaries.upper)
        self.lower = np.where(up, np.ceil(task.primaries.lower - CLOSE), task.primaries.lower)
        needed = (task.primaries.upper > 0) | (task.primaries.lower > 0)
        # What cannot go down at all would stay where it is.
        self.can_fall = (self.lower > 0) & (self.lower <= -self.low[self.cell] + CLOSE) | ~needed
        self.can_rise = (self.upper <= self.high[self.cell] + CLOSE) & (self.upper > 0) | ~needed

    def alternate(self) -> Flags:
        """Up and down in turn, the largest level first; what cannot go down goes up."""
        order = np.lexsort((np.arange(len(self.cell)), -self.task.primaries.upper))
        up = np.zeros(len(self.cell), dtype=bool)
        up[order[::2]] = True
        return (up & self.can_rise) | ~self.can_fall

    def all_up(self) -> Flags:
        return self.can_rise | ~self.can_fall

    def solve(
        self, directions: Flags | None, most: float, seconds: float, start: IntegerSolution | None = None
    ) -> IntegerSolution | None:
        """The cheapest table; with `directions`, for each primary whether it goes up, these are not chosen. No change
        costs more than `most`."""
        system, count = self.task.system, self.task.system.cells
        if not (self.can_fall | self.can_rise).all():
            return None
        limit = np.full(count, np.inf) if math.isinf(most) else most / np.maximum(self.weight, 1e-12) + 1.0
        above, below = np.minimum(self.high, limit), np.minimum(-self.low, limit)
        least_up, least_down = np.maximum(0.0, self.low), np.maximum(0.0, -self.high)
        above, below = np.maximum(above, least_up), np.maximum(below, least_down)
        if directions is not None:
            rising, falling = self.cell[directions], self.cell[~directions]
            least_up[rising] = np.maximum(least_up[rising], self.upper[directions])
            below[rising] = np.minimum(below[rising], 0.0)
            least_down[falling] = np.maximum(least_down[falling], self.lower[~directions])
            above[falling] = np.minimum(above[falling], 0.0)
            if (least_up > above).any() or (least_down > below).any():
                return None
        program = IntegerProgram(self.clock)
        rise, fall = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for whole in (True, False):
            own = np.flatnonzero(self.whole == whole)
            rise[own] = program.add_columns(self.weight[own], least_up[own], above[own], whole=whole)
            fall[own] = program.add_columns(self.weight[own], least_down[own], below[own], whole=whole)
        zeros = np.zeros(system.equations)
        program.add_rows(
            zeros, zeros, (system.rows, rise[system.columns], system.signs),
            (system.rows, fall[system.columns], -system.signs),
        )  # fmt: skip
        if directions is None:
            self._choose(program, rise, fall, above, below)
        begin = None
        if start is not None:
            moves = start.columns[: 2 * count]
            up = (moves[rise[self.cell]] > moves[fall[self.cell]]).astype(np.float64)
            begin = np.concatenate((moves, up))
        found = program.solve(seconds, begin)
        self._rise, self._fall = rise, fall
        return found

    def _choose(self, program: IntegerProgram, rise: Indices, fall: Indices, above: Numbers, below: Numbers) -> None:
        """One binary for each primary, and rows that let it move to one side only, by its level at least."""
        count = len(self.cell)
        widest = self._widest()
        up = program.add_columns(
            np.zeros(count), np.where(self.can_fall, 0.0, 1.0), np.where(self.can_rise, 1.0, 0.0), whole=True
        )
        at, one = np.arange(count), np.ones(count)
        free, nothing = np.full(count, np.inf), np.zeros(count)
        most_up = np.minimum(above[self.cell], widest)
        most_down = np.minimum(below[self.cell], widest)
        own_rise, own_fall = rise[self.cell], fall[self.cell]
        program.add_rows(nothing, free, (at, own_rise, one), (at, up, -self.upper))
        program.add_rows(-free, nothing, (at, own_rise, one), (at, up, -most_up))
        program.add_rows(self.lower, free, (at, own_fall, one), (at, up, self.lower))
        program.add_rows(-free, most_down, (at, own_fall, one), (at, up, most_down))

    def _widest(self) -> float:
        """More than any change that can be of use, where nothing is known of its cost."""
        levels = float(np.concatenate((self.upper, self.lower, [0.0])).max())
        return 1000.0 * levels + 10.0 * float(np.abs(self.task.system.value).max(initial=1.0))

    def values(self, found: IntegerSolution) -> Numbers:
        moves = found.columns[self._rise] - found.columns[self._fall]
        moves = np.where(self.whole, np.rint(moves), moves)
        return np.asarray(self.task.system.value + moves)
