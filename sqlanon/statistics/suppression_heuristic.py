"""Secondary suppression, one unsafe cell after the other: the cheapest deviation that protects it is hidden with it.

Then it tries to publish cells again, the dearest first, as long as the audit holds, and to exchange them for others.
"""

from __future__ import annotations

import math
import time

import numpy as np

from sqlanon.errors import NotReleased
from sqlanon.statistics.audit import ENOUGH, Auditor, ComponentPrograms, Deviation, Lack
from sqlanon.statistics.flow_program import (
    CLOSE,
    OutOfTime,
    SolverClock,
    load_program,
    load_solver,
    quiet_model,
    run_solver,
)
from sqlanon.statistics.table_system import Flags, Indices, Task

LEAST_EXCHANGE = 2.0  # seconds


def suppress_cells(auditor: Auditor, start: Flags | None = None) -> Flags:
    """A pattern that protects every primary from every attacker, with a pattern to start from or without. Raises
    NotReleased if there is none."""
    hidden = (auditor.task.least_hidden if start is None else start).copy()
    _suppress(auditor, hidden, _CheapestDeviation(auditor, hidden))
    return hidden


def _suppress(auditor: Auditor, hidden: Flags, cheapest: _CheapestDeviation, most: float = math.inf) -> bool:
    """Hide more of a pattern until it protects every primary; False if it costs too much on the way."""
    task = auditor.task
    value = task.system.value[task.primaries.cell]
    while lacks := auditor.find_lacks(hidden):
        for lack in sorted(lacks, key=lambda item: (item.who, -value[item.primary], item.primary, -item.side)):
            if lack.side and auditor.find_proof(hidden, lack.who, lack.primary, lack.side) is not None:
                continue
            if lack.side:
                cheapest.hide(lack)
            else:
                cheapest.widen(lack)
            if most < math.inf and task.cost(hidden) > most:
                return False
    return True


def exchange_cells(auditor: Auditor, hidden: Flags) -> Flags:
    """A cheaper pattern, if one is found before the time is over: each hidden cell in turn must be shown, and what that
    lays open is protected in another way."""
    task = auditor.task
    best, cost = hidden, task.cost(hidden)
    cheapest = _CheapestDeviation(auditor, hidden.copy())
    tried: set[int] = set()
    try:
        while True:
            extra = np.flatnonzero(best & ~task.least_hidden)
            left = [place for place in extra.tolist() if place not in tried]
            if not left:
                return best
            place = max(left, key=lambda own: (task.system.weight[own], -own))
            tried.add(place)
            found = _do_without(auditor, cheapest, best, place, cost)
            if found is not None and task.cost(found) < cost - 1e-9 * max(1.0, cost):
                best, cost = found, task.cost(found)
                tried = {place}
    except OutOfTime:
        return best


def _do_without(auditor: Auditor, cheapest: _CheapestDeviation, hidden: Flags, place: int, cost: float) -> Flags | None:
    """A pattern that shows one place, made from one that hides it; None if there is none that is not much dearer."""
    made = hidden.copy()
    made[place] = False
    cheapest.restart(made, place)
    try:
        if not _suppress(auditor, made, cheapest, most=cost + float(auditor.task.system.weight[place])):
            return None
    except NotReleased:
        return None
    return publish_again(auditor, made)


def publish_again(auditor: Auditor, hidden: Flags) -> Flags:
    """The same pattern without cells that are not needed; where the time is over, as far as it came."""
    task = auditor.task
    system, hidden = task.system, hidden.copy()
    programs = ComponentPrograms(auditor, hidden)
    proofs = _ProofTable(auditor, programs)
    extra = np.flatnonzero(hidden & ~task.least_hidden)
    try:
        proofs.fill(hidden)
        for place in extra[np.argsort(-system.weight[extra], kind="stable")].tolist():
            cells = np.flatnonzero(system.place == place)
            hidden[place] = False
            try:
                programs.close_cells(cells)
                done = proofs.do_without(cells.tolist(), hidden)
            except OutOfTime:
                hidden[place] = True
                raise
            if not done:
                hidden[place] = True
                programs.open_cells(cells)
    except OutOfTime:
        pass
    return hidden


class _ProofTable:
    """The deviation that protects each primary now: from outsiders, and from those who do not believe in that one."""

    def __init__(self, auditor: Auditor, programs: ComponentPrograms) -> None:
        self.auditor, self.programs = auditor, programs
        self._proofs: dict[tuple[int, int, int], Deviation] = {}

    def fill(self, hidden: Flags) -> None:
        for primary, side in self.auditor.task.demands:
            made = self._renew((0, primary, side), hidden)
            assert made is not None, "only a pattern that holds is cleaned up"
            self._proofs |= made

    def do_without(self, cells: list[int], hidden: Flags) -> bool:
        """Whether every primary stays protected without some cells; then its proofs do without them."""
        made: dict[tuple[int, int, int], Deviation] = {}
        resting = [key for key, proof in self._proofs.items() if any(cell in proof.moved for cell in cells)]
        for key in sorted(resting):
            if key in made:
                continue
            found = self._renew(key, hidden)
            if found is None:
                return False
            made |= found
        task = self.auditor.task
        for primary in task.wide:
            for who in range(len(task.intruders)):
                if self.programs.width(who, primary, level := task.level(who, primary, 0)) < level * ENOUGH - CLOSE:
                    return False
        self._proofs |= made
        return True

    def _renew(self, key: tuple[int, int, int], hidden: Flags) -> dict[tuple[int, int, int], Deviation] | None:
        who, primary, side = key
        proof = self.auditor.prove(self.programs, hidden, *key)
        if proof is None:
            return None
        made = {key: proof}
        for doubter in self.auditor.doubters(proof) if who == 0 else ():
            if self.auditor.task.level(doubter, primary, side) <= 0:
                continue
            own = self.auditor.prove(self.programs, hidden, doubter, primary, side)
            if own is None:
                return None
            made[doubter, primary, side] = own
        return made


class _CheapestDeviation:
    """The program over all cells: deviations above and below are two columns, which cost what hiding the cell does."""

    def __init__(self, auditor: Auditor, hidden: Flags) -> None:
        self.auditor, self.hidden = auditor, hidden
        system = auditor.task.system
        self.cells = np.flatnonzero(~system.known)
        self.at = {cell: place for place, cell in enumerate(self.cells.tolist())}
        begins, rows, signs = system.entries(self.cells)
        count = len(self.cells)
        both = (
            np.concatenate((begins, begins[1:] + begins[-1])),
            np.concatenate((rows, rows)),
            np.concatenate((signs, -signs)),
        )
        self._cost = np.where(hidden[system.place[self.cells]], 0.0, system.weight[system.place[self.cells]])
        # A cell without weight still must not be hidden without need.
        self._cost = np.where(hidden[system.place[self.cells]], 0.0, np.maximum(self._cost, 1e-3))
        zeros = np.zeros(system.equations)
        self._model = quiet_model()
        self._who = -1
        self._shown: Indices = np.zeros(0, dtype=np.int64)  # cells that must not be hidden
        self._high = np.zeros(2 * count)
        load_program(
            self._model,
            (np.concatenate((self._cost, self._cost)), np.zeros(2 * count), np.zeros(2 * count)),
            (zeros, zeros),
            both,
        )

    def _look_as(self, who: int) -> None:
        low, high = self.auditor.task.bounds(who)
        self._high = np.concatenate((high[self.cells], -low[self.cells]))
        self._high[np.concatenate((self._shown, self._shown + len(self.cells)))] = 0.0
        columns = np.arange(2 * len(self.cells), dtype=np.int32)
        self._model.changeColsBounds(len(columns), columns, np.zeros(len(columns)), self._high)
        self._who = who

    def restart(self, hidden: Flags, shown: int) -> None:
        """Another pattern to hide more of, but never one place."""
        system = self.auditor.task.system
        places = system.place[self.cells]
        self.hidden, self._who = hidden, -1
        self._shown = np.flatnonzero(places == shown)
        cost = np.where(hidden[places], 0.0, np.maximum(system.weight[places], 1e-3))
        columns = np.arange(2 * len(self.cells), dtype=np.int32)
        self._model.changeColsCost(len(columns), columns, np.concatenate((cost, cost)))

    def hide(self, lack: Lack) -> None:
        """Hide the cells of the cheapest deviation that moves a primary by its level."""
        if self._who != lack.who:
            self._look_as(lack.who)
        task, count = self.auditor.task, len(self.cells)
        place = self.at.get(int(task.primaries.cell[lack.primary]))
        if place is None:
            raise not_protectable(lack)
        own, other = (place, place + count) if lack.side > 0 else (place + count, place)
        if self._high[own] < lack.level - CLOSE:
            raise not_protectable(lack)
        self._model.changeColBounds(own, lack.level, max(lack.level, float(self._high[own])))
        self._model.changeColBounds(other, 0.0, 0.0)
        try:
            status = run_solver(self._model, self.auditor.clock)
            if status != load_solver().HighsModelStatus.kOptimal:
                raise not_protectable(lack)
            found = np.array(self._model.getSolution().col_value, dtype=np.float64)
        finally:
            for column in (own, other):
                self._model.changeColBounds(column, 0.0, float(self._high[column]))
        amounts = found[:count] - found[count:]
        self._publish_none(self.auditor.note_deviation(self.cells, amounts))

    def widen(self, lack: Lack) -> None:
        """The same for the width: as far above as can be, up to the level, and what is missing below."""
        task = self.auditor.task
        cell = int(task.primaries.cell[lack.primary])
        low, high = task.bounds(lack.who)
        above = min(lack.level / 2, float(high[cell]))
        below = min(lack.level - above, -float(low[cell]))
        for side, level in ((1, lack.level - below), (-1, below)):
            if level > 0:
                self.hide(Lack(lack.who, lack.primary, side, level))

    def _publish_none(self, proof: Deviation) -> None:
        count = len(self.cells)
        task = self.auditor.task
        places = np.unique(proof.places)
        added = places[~self.hidden[places]]
        self.hidden[added] = True
        free = np.flatnonzero(np.isin(task.system.place[self.cells], added)).astype(np.int32)
        if len(free):
            both = np.concatenate((free, free + count)).astype(np.int32)
            self._model.changeColsCost(len(both), both, np.zeros(len(both)))


def not_protectable(lack: Lack) -> NotReleased:
    """No pattern protects a primary: it is told how it came, not where."""
    inside = lack.who > 0
    return NotReleased(
        "an unsafe cell cannot be protected by hiding others"
        + (" from a contributor who knows their own amount" if inside else ""),
        hint=("let fewer contributors attack: 'singletons: alone'; " if inside else "")
        + "let more cells vary: 'zeros: unknown' if nobody knows which cells are empty; or lower the level of the "
        "rule, take a coarser hierarchy, or leave out a table",
    )


def search_pattern(task: Task, seconds: float | None = None) -> tuple[Flags, Auditor]:
    """The heuristic with its clean-up, for which there is so much time; then cells are exchanged for as long again. And
    the auditor that knows the proofs."""
    auditor = Auditor(task, SolverClock())
    begin = time.monotonic()
    hidden = suppress_cells(auditor)
    auditor.clock.set_limit(seconds)
    hidden = publish_again(auditor, hidden)
    left = auditor.clock.left
    auditor.clock.set_limit(min(left, max(LEAST_EXCHANGE, time.monotonic() - begin)))
    hidden = exchange_cells(auditor, hidden)
    auditor.clock.set_limit(None)
    return hidden, auditor
