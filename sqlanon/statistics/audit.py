"""The audit: whether an attacker who solves the equations of a table is left uncertain about every unsafe cell.

A proof is a set of deviations that keep every equation, and move an unsafe cell by its level. One set of deviations
often proves several cells, and for several attackers: it is looked for before a program is solved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from sqlanon.statistics.flow_program import CLOSE, FlowProgram, SolverClock
from sqlanon.statistics.table_system import Flags, Indices, Numbers, TableSystem, Task

MOST_PROOFS = 60  # that are kept of one primary and side
ENOUGH = 1 - 1e-6  # of a level: less than this is lost to floating numbers


@dataclass(frozen=True)
class Deviation:
    """Cells that deviate, and by how much."""

    moved: dict[int, float]
    places: Indices
    judged: dict[int, bool] = field(default_factory=dict, compare=False)  # whether an attacker can believe in it

    @staticmethod
    def of(system: TableSystem, cells: Indices, amounts: Numbers) -> Deviation:
        moved = np.abs(amounts) > CLOSE
        own = cells[moved]
        return Deviation(dict(zip(own.tolist(), amounts[moved].tolist(), strict=True)), system.place[own])


@dataclass(frozen=True)
class Lack:
    """A primary that one attacker can bound too tightly; side 0 is about the width."""

    who: int
    primary: int
    side: int
    level: float


@dataclass
class Auditor:
    """Audits patterns of one task; proofs are kept from one pattern to the next."""

    task: Task
    clock: SolverClock = field(default_factory=SolverClock)

    def __post_init__(self) -> None:
        self._proofs: dict[tuple[int, int], deque[Deviation]] = {}
        self._places = {int(cell): place for place, cell in enumerate(self.task.primaries.cell.tolist())}

    def free_cells(self, hidden: Flags) -> Indices:
        """Cells that a reader does not see, and whose value not everybody knows."""
        system = self.task.system
        return np.flatnonzero(hidden[system.place] & ~system.known)

    def find_lacks(self, hidden: Flags, *, first_only: bool = False) -> list[Lack]:
        """What a pattern leaves unprotected: first from an outsider, and then from those who know more."""
        task, programs = self.task, ComponentPrograms(self, hidden)
        found: list[Lack] = []
        waiting: dict[int, list[tuple[int, int]]] = {}
        for key in task.demands:
            proof = self.prove(programs, hidden, 0, *key)
            if proof is None:
                found.append(Lack(0, *key, task.level(0, *key)))
                if first_only:
                    return found
                continue
            for who in self.doubters(proof):
                waiting.setdefault(who, []).append(key)
        for who, keys in sorted(waiting.items()):
            for key in keys:
                if task.level(who, *key) > 0 and self.prove(programs, hidden, who, *key) is None:
                    found.append(Lack(who, *key, task.level(who, *key)))
                    if first_only:
                        return found
        for primary in task.wide:
            for who in range(len(task.intruders)):
                level = task.level(who, primary, 0)
                if level > 0 and programs.width(who, primary, level) < level * ENOUGH - CLOSE:
                    found.append(Lack(who, primary, 0, level))
        return found

    def prove(self, programs: ComponentPrograms, hidden: Flags, who: int, primary: int, side: int) -> Deviation | None:
        """A deviation that moves a primary by its level in the eyes of an attacker: one that is known, or a new one."""
        level = self.task.level(who, primary, side)
        return self.find_proof(hidden, who, primary, side) or programs.prove(who, primary, side, level)

    def doubters(self, proof: Deviation) -> set[int]:
        """Attackers who cannot believe in a deviation, since they know better."""
        known = self.task.attackers_of
        near = {who for cell in proof.moved for who in known.get(cell, ())}
        return {who for who in near if not self._is_believed(who, proof)}

    def _is_believed(self, who: int, proof: Deviation) -> bool:
        if (found := proof.judged.get(who)) is None:
            found = proof.judged[who] = self.task.fits(who, proof.moved)
        return found

    def find_proof(self, hidden: Flags, who: int, primary: int, side: int) -> Deviation | None:
        """A deviation that is known already, fits the pattern and what an attacker knows, and is large enough."""
        cell = int(self.task.primaries.cell[primary])
        enough = self.task.level(who, primary, side) * ENOUGH - CLOSE
        for proof in reversed(self._proofs.get((primary, side), ())):
            if side * proof.moved.get(cell, 0.0) < enough or (who and not self._is_believed(who, proof)):
                continue
            if hidden[proof.places].all():
                return proof
        return None

    def note_deviation(self, cells: Indices, amounts: Numbers) -> Deviation:
        """Remember a deviation for every primary that it moves; it keeps the equations, whoever looks."""
        proof = Deviation.of(self.task.system, cells, amounts)
        for cell, amount in proof.moved.items():
            if (primary := self._places.get(cell)) is not None:
                key = (primary, 1 if amount > 0 else -1)
                self._proofs.setdefault(key, deque(maxlen=MOST_PROOFS)).append(proof)
        return proof


class ComponentPrograms:
    """The attacker's programs of one pattern: one a component, made when it is needed."""

    def __init__(self, auditor: Auditor, hidden: Flags) -> None:
        self.auditor = auditor
        system = auditor.task.system
        self._component: dict[int, int] = {}
        self._cells = system.components(auditor.free_cells(hidden))
        for number, cells in enumerate(self._cells):
            self._component.update(dict.fromkeys(cells.tolist(), number))
        self._programs: dict[int, FlowProgram] = {}
        self._who: dict[int, int] = {}
        self._closed: set[int] = set()

    def program(self, who: int, cell: int) -> FlowProgram | None:
        number = self._component.get(cell)
        if number is None:
            return None
        if number not in self._programs:
            self._programs[number] = FlowProgram(self.auditor.task.system, self._cells[number], self.auditor.clock)
        made = self._programs[number]
        if self._who.get(number) != who:
            low, high = self.auditor.task.bounds(who)
            made.set_bounds(low[made.cells], high[made.cells])
            made.close_cells(np.array(sorted(self._closed), dtype=np.int64))
            self._who[number] = who
        return made

    def close_cells(self, cells: Indices) -> None:
        """Publish cells that were hidden."""
        self._closed |= set(cells.tolist())
        for made in self._programs.values():
            made.close_cells(cells)

    def open_cells(self, cells: Indices) -> None:
        self._closed -= set(cells.tolist())
        for made in self._programs.values():
            made.open_cells(cells)

    def prove(self, who: int, primary: int, side: int, level: float) -> Deviation | None:
        """Solve for a deviation that moves a primary by its level; None if there is none."""
        cell = int(self.auditor.task.primaries.cell[primary])
        program = self.program(who, cell)
        if program is None or cell in self._closed:
            return None
        reached, amounts = program.reach(cell, side, level)
        if reached < level * ENOUGH - CLOSE:
            return None
        return self.auditor.note_deviation(program.cells, amounts)

    def width(self, who: int, primary: int, most: float) -> float:
        cell = int(self.auditor.task.primaries.cell[primary])
        program = self.program(who, cell)
        if program is None:
            return 0.0
        return program.reach(cell, 1, most)[0] + program.reach(cell, -1, most)[0]


def find_intervals(
    task: Task, hidden: Flags, cells: Iterable[int], who: int = 0, clock: SolverClock | None = None
) -> dict[int, tuple[float, float]]:
    """What an attacker can say of hidden cells: the least and the greatest value that the equations allow."""
    programs = ComponentPrograms(Auditor(task, clock or SolverClock()), hidden)
    found: dict[int, tuple[float, float]] = {}
    for cell in cells:
        value = float(task.system.value[cell])
        program = programs.program(who, cell)
        if program is None:
            found[cell] = (value, value)
            continue
        found[cell] = (value - program.reach(cell, -1)[0], value + program.reach(cell, 1)[0])
    return found
