"""The pattern that costs least, by cuts, after Fischetti and Salazar.

The master chooses places; a program for each unsafe cell, side and attacker tells by its reduced costs which places
would have let the cell vary more: at least one of these must be hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sqlanon.statistics.audit import ENOUGH, Auditor, Deviation
from sqlanon.statistics.flow_program import (
    CLOSE,
    FlowProgram,
    OutOfTime,
    SolverClock,
    load_solver,
    quiet_model,
    run_solver,
)
from sqlanon.statistics.suppression_heuristic import exchange_cells, publish_again, suppress_cells
from sqlanon.statistics.table_system import Flags, Numbers, Task

EXCHANGE = 0.15  # of the time, for a better pattern to begin with


@dataclass(frozen=True)
class SearchResult:
    """A pattern, what it costs, and what any pattern costs at least."""

    hidden: Flags
    cost: float
    bound: float
    rounds: int = 0
    cuts: int = 0

    @property
    def proven(self) -> bool:
        return self.bound >= self.cost - 1e-6 * max(1.0, self.cost)

    @property
    def gap(self) -> float:
        """The share of its cost that a better pattern could save at most."""
        return 0.0 if self.proven else (self.cost - self.bound) / self.cost


def search_least_cost(task: Task, seconds: float | None = None, auditor: Auditor | None = None) -> SearchResult:
    """The cheapest pattern, or where the time is over the best one that is known, with a bound."""
    auditor = auditor or Auditor(task, SolverClock())
    hidden = suppress_cells(auditor)
    search = _Cuts(task, auditor, SolverClock(seconds))
    auditor.clock.set_limit(seconds)
    hidden = publish_again(auditor, hidden)
    auditor.clock.set_limit(None if seconds is None else EXCHANGE * seconds)
    hidden = exchange_cells(auditor, hidden)
    auditor.clock.set_limit(None)
    best, cost = hidden, task.cost(hidden)
    try:
        found = search.run(cost)
        if found is not None and task.cost(found) < cost and not auditor.find_lacks(found, first_only=True):
            best, cost = found, task.cost(found)
    except OutOfTime:
        pass
    auditor.clock.solving += search.clock.solving
    auditor.clock.programs += search.clock.programs
    return SearchResult(best, cost, min(cost, search.bound), search.rounds, search.cuts)


class _Cuts:
    def __init__(self, task: Task, auditor: Auditor, clock: SolverClock) -> None:
        self.task, self.auditor, self.clock = task, auditor, clock
        system = task.system
        self.choices = np.flatnonzero(system.hideable & ~task.least_hidden)
        self.weights = system.weight[self.choices]
        self.rounds = self.cuts = 0
        self.bound = 0.0
        self._at = np.full(system.places, -1, dtype=np.int64)
        self._at[self.choices] = np.arange(len(self.choices))
        self._flow = FlowProgram(system, np.flatnonzero(~system.known), clock)
        levels = [task.level(0, *key) for key in task.demands]
        levels += [task.level(0, primary, 0) for primary in task.wide]
        greatest = float(np.abs(system.value).max()) if system.cells else 0.0
        self._far = 10 * greatest + 1000 * max(levels, default=0.0)  # stands for no bound at all
        self._below = self._above = np.zeros(0)
        self._master = quiet_model()
        self._master.setOptionValue("mip_rel_gap", 0.0)
        self._master.setOptionValue("mip_abs_gap", 1e-6)
        for weight in self.weights.tolist():
            self._master.addCol(weight, 0.0, 1.0, 0, np.array([], dtype=np.int32), np.array([], dtype=np.float64))

    def run(self, best: float) -> Flags | None:
        """The optimum, or None if the pattern that is known costs no more."""
        for integer in (False, True):
            if integer and len(self.choices):
                kinds = np.full(len(self.choices), load_solver().HighsVarType.kInteger)
                self._master.changeColsIntegrality(
                    len(self.choices), np.arange(len(self.choices), dtype=np.int32), kinds
                )
            while True:
                chosen = self._solve_master(integer, best)
                if self.bound >= best - 1e-6 * max(1.0, best):
                    self.bound = best
                    return None
                if not self._add_cuts(chosen, integer):
                    break
        hidden = self.task.least_hidden.copy()
        hidden[self.choices[chosen > 0.5]] = True
        return hidden

    def _solve_master(self, integer: bool, best: float) -> Numbers:
        self.rounds += 1
        if not len(self.choices):
            return np.zeros(0)
        status = run_solver(self._master, self.clock)
        statuses = load_solver().HighsModelStatus
        if status != statuses.kOptimal:
            raise OutOfTime  # no pattern was found: the heuristic's is the one to keep
        bound = float(self._master.getObjectiveValue())
        if integer:
            bound = float(self._master.getInfo().mip_dual_bound)
        if np.array_equal(self.weights, np.rint(self.weights)):
            bound = math.ceil(bound - 1e-6)
        self.bound = max(self.bound, bound)
        chosen = np.array(self._master.getSolution().col_value, dtype=np.float64)
        return np.rint(chosen) if integer else np.clip(chosen, 0.0, 1.0)

    def _add_cuts(self, chosen: Numbers, integer: bool) -> int:
        """Cuts that the choice violates; of those who know more only where an outsider finds nothing."""
        task, system = self.task, self.task.system
        share = np.ones(system.places)
        share[self.choices] = chosen
        share[~system.hideable] = 0.0
        hidden = share > 0.5 if integer else None
        added = 0
        waiting: dict[int, list[tuple[int, int]]] = {}
        self._look_as(0, share)
        for key in task.demands:
            if hidden is not None and (proof := self.auditor.find_proof(hidden, 0, *key)) is not None:
                deviation = proof
            else:
                cut, amounts = self._separate(0, key[0], (key[1],), task.level(0, *key))
                added += cut
                if cut:
                    continue
                deviation = self._as_deviation(amounts)
                if integer:
                    self.auditor.note_deviation(self._flow.cells, amounts)
            for who in self.auditor.doubters(deviation):
                waiting.setdefault(who, []).append(key)
        for who in range(len(task.intruders)) if task.wide else ():
            self._look_as(who, share)
            for primary in task.wide:
                if (level := task.level(who, primary, 0)) > 0:
                    added += self._separate(who, primary, (1, -1), level)[0]
        for who, keys in () if added else sorted(waiting.items()):
            self._look_as(who, share)
            for primary, side in keys:
                level = task.level(who, primary, side)
                if level <= 0 or (
                    hidden is not None and self.auditor.find_proof(hidden, who, primary, side) is not None
                ):
                    continue
                cut, amounts = self._separate(who, primary, (side,), level)
                added += cut
                if integer and not cut:
                    self.auditor.note_deviation(self._flow.cells, amounts)
        return added

    def _look_as(self, who: int, share: Numbers) -> None:
        low, high = self.task.bounds(who)
        cells = self._flow.cells
        self._below, self._above = np.minimum(-low[cells], self._far), np.minimum(high[cells], self._far)
        part = share[self.task.system.place[cells]]
        self._flow.set_bounds(-self._below * part, self._above * part)

    def _as_deviation(self, amounts: Numbers) -> Deviation:
        return Deviation.of(self.task.system, self._flow.cells, amounts)

    def _separate(self, who: int, primary: int, sides: tuple[int, ...], level: float) -> tuple[int, Numbers]:
        """A cut if a primary cannot deviate by its level, and the deviation that was found."""
        cell = int(self.task.primaries.cell[primary])
        reached, price = 0.0, np.zeros(len(self._flow.cells))
        amounts = price
        for side in sides:
            far, amounts, costs = self._flow.price(cell, side)
            reached += far
            costs = np.where(np.abs(costs) < 1e-9, 0.0, costs)
            price += np.where(costs < 0, -costs * self._above, costs * self._below)
        if reached >= level * ENOUGH - CLOSE:
            return 0, amounts
        return self._cut(self._flow.cells, price, level), amounts

    def _cut(self, cells: Any, price: Numbers, level: float) -> int:
        """At least so much must be let through by the places that are hidden."""
        by_place = np.bincount(self.task.system.place[cells], weights=price, minlength=self.task.system.places)
        given = float(by_place[self.task.least_hidden].sum())
        need = level - given
        if need <= CLOSE:
            return 0
        among = np.flatnonzero((by_place > CLOSE) & (self._at >= 0))
        amounts = np.minimum(by_place[among], need) / need
        self._master.addRow(1.0, math.inf, len(among), self._at[among].astype(np.int32), amounts)
        self.cuts += 1
        return 1
