"""Controlled rounding: the nearest table of multiples of a base whose totals are sums, by an integer program.

Each cell goes to the multiple below or above it. Where that is impossible, cells may go one step further. What a reader
can compute from the rounded table must leave every unsafe cell as open as its rules ask for: that is added to the
program only for the cells for which it does not hold by itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sqlanon.errors import NotReleased
from sqlanon.statistics.audit import Auditor, Lack
from sqlanon.statistics.flow_program import OutOfTime, SolverClock
from sqlanon.statistics.integer_program import IntegerProgram, IntegerSolution, out_of_time
from sqlanon.statistics.table_system import Indices, Numbers, TableSystem, Task

MOST_ROUNDS = 20  # of programs, each of which knows more unsafe cells that totals confine
TOUCH = 1e-9


@dataclass(frozen=True)
class RoundedTable:
    """The rounded values, how far cells went, the sum of all changes, and what that is at least."""

    values: Numbers
    steps: int  # 1: to a multiple beside the value; 2: some one further
    cost: float
    bound: float


def rounded_box(shown: Numbers, base: int, steps: int = 1) -> tuple[Numbers, Numbers]:
    """What a reader knows of whole numbers that were rounded."""
    reach = steps * base - 1
    return np.maximum(0.0, shown - reach), shown + reach


def box_task(task: Task, low: Numbers, high: Numbers) -> Task:
    """The same task for attackers who know bounds of every cell, and no cell exactly."""
    known = task.system.known
    low = np.where(known, task.system.low, np.maximum(task.system.low, low))
    high = np.where(known, task.system.high, np.minimum(task.system.high, high))
    return Task(replace(task.system, low=low, high=high), task.primaries, task.intruders)


def round_table(
    task: Task, base: int, seconds: float, *, fixed: Mapping[int, float] | None = None, clock: SolverClock | None = None
) -> RoundedTable:
    """The nearest table that protects every primary. Raises NotReleased if there is none, or none was found in time."""
    clock, until = clock or SolverClock(), time.monotonic() + seconds
    for steps in (1, 2):
        program = _Rounding(task, base, steps, fixed or {}, clock)
        if program.impossible:
            continue
        for _ in range(MOST_ROUNDS):
            try:
                found = program.solve(max(0.05, until - time.monotonic()))
            except OutOfTime:
                raise out_of_time("rounded table", seconds) from None
            if found is None:
                break
            lacks = program.find_lacks(found.values)
            if not lacks:
                return found
            program.leave_open(lacks)
        else:
            raise out_of_time("rounded table that leaves all unsafe cells open", seconds)
    raise NotReleased(
        f"no table of multiples of {base} whose totals are sums protects every unsafe cell",
        hint="take a larger base, lower the level of the rule, or protect by suppression",
    )


class _Rounding:
    """The program for one table: a column `up` for each cell says whether it goes to the multiple above; where further
    steps are allowed, two more columns say whether it goes one step beyond."""

    def __init__(self, task: Task, base: int, steps: int, fixed: Mapping[int, float], clock: SolverClock) -> None:
        self.task, self.base, self.steps = task, base, steps
        system = task.system
        value = system.value
        self.below = np.floor(value / base + TOUCH) * base
        over = value - self.below
        stays = over < TOUCH * np.maximum(1.0, value)
        nothing = np.zeros(system.cells)
        # Steps from the multiple below: what everybody knows stays, and nothing falls below 0.
        least = np.where(self.below > 0, 1.0 - steps, 0.0)
        most = np.where(stays, steps - 1.0, float(steps))
        least, most = np.where(system.known, 0.0, least), np.where(system.known, 0.0, most)
        least, most = self._levels(least, most)
        for cell, shown in fixed.items():
            least[cell] = max(least[cell], (shown - self.below[cell]) / base)
            most[cell] = min(most[cell], (shown - self.below[cell]) / base)
        self.impossible = bool((least > most).any())
        self._program = IntegerProgram(clock)
        self._offset = float(over.sum())
        up = self._program.add_columns(base - 2 * over, np.clip(least, 0, 1), np.clip(most, 0, 1), whole=True)
        parts = [(up, 1.0)]
        if steps > 1:
            dear = np.full(system.cells, float(base))
            parts.append((self._program.add_columns(dear, nothing, np.maximum(0.0, -least), whole=True), -1.0))
            parts.append((self._program.add_columns(dear, nothing, np.maximum(0.0, most - 1.0), whole=True), 1.0))
            # Bounds that no single column can hold.
            at = np.arange(system.cells)
            self._program.add_rows(least, most, *((at, own, np.full(len(at), sign)) for own, sign in parts))
        self._parts = parts
        sums = _right_sides(system, self.below / base)
        self._program.add_rows(
            sums, sums, *((system.rows, own[system.columns], sign * system.signs) for own, sign in parts)
        )

    def _levels(self, least: Numbers, most: Numbers) -> tuple[Numbers, Numbers]:
        """The steps that leave every primary open to a reader who looks at it alone."""
        task, reach = self.task, self.steps * self.base - 1
        cell = task.primaries.cell
        low = task.system.value[cell] + task.primaries.upper - reach - self.below[cell] - TOUCH
        high = task.system.value[cell] - task.primaries.lower + reach - self.below[cell] + TOUCH
        least[cell] = np.maximum(least[cell], np.ceil(low / self.base - TOUCH))
        most[cell] = np.minimum(most[cell], np.floor(high / self.base + TOUCH))
        return least, most

    def solve(self, seconds: float) -> RoundedTable | None:
        found: IntegerSolution | None = self._program.solve(seconds)
        if found is None:
            return None
        steps = sum(sign * found.columns[own] for own, sign in self._parts)
        values = self.below + self.base * np.asarray(steps)
        cost = float(np.abs(values - self.task.system.value).sum())
        return RoundedTable(values, self.steps, cost, min(cost, found.bound + self._offset))

    def find_lacks(self, values: Numbers) -> list[Lack]:
        task = box_task(self.task, *rounded_box(values, self.base, self.steps))
        everything = np.ones(task.system.places, dtype=bool)
        return Auditor(task).find_lacks(everything)

    def leave_open(self, lacks: list[Lack]) -> None:
        """Ask for a table that a reader can believe in too, in which a primary lies at its level."""
        task, system = self.task, self.task.system
        reach = float(self.steps * self.base - 1)
        at = np.arange(system.cells)
        for lack in lacks:
            cell = int(task.primaries.cell[lack.primary])
            low, high = system.low.copy(), system.high.copy()
            if lack.side > 0:
                low[cell] = max(low[cell], float(system.value[cell]) + lack.level)
            else:
                high[cell] = min(high[cell], float(system.value[cell]) - lack.level)
            other = self._program.add_columns(np.zeros(system.cells), low, high, whole=False)
            nothing = np.zeros(system.equations)
            self._program.add_rows(nothing, nothing, (system.rows, other[system.columns], system.signs))
            moves = [(at, own, np.full(len(at), -sign * self.base)) for own, sign in self._parts]
            known = system.known
            self._program.add_rows(
                np.where(known, -np.inf, self.below - reach), np.where(known, np.inf, self.below + reach),
                (at, other, np.ones(len(at))), *moves,
            )  # fmt: skip


def _right_sides(system: TableSystem, multiples: Numbers) -> Numbers:
    """What the steps of each equation must add up to."""
    found = np.zeros(system.equations)
    rows: Indices = system.rows
    np.add.at(found, rows, -system.signs * np.rint(multiples[system.columns]))
    return found
