"""Suppression one sub-table after the other, from the top, after HiTaS: for hierarchies that are too large as a whole.

A sub-table has one family, a parent with its children, in each dimension. Its cheapest pattern is searched; cells that
are hidden in it must be free to move in the sub-tables below as they do here. A cell that was shown above is dear; if
it has to be hidden after all, the sub-tables with it are searched again. That protects no table as a whole: the audit
does.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sqlanon.errors import NotReleased
from sqlanon.policy.table_protection import Suppression
from sqlanon.statistics.audit import Auditor, ComponentPrograms
from sqlanon.statistics.cell_tables import CellTables, TableCells
from sqlanon.statistics.dimensions import Dimension
from sqlanon.statistics.flow_program import SolverClock
from sqlanon.statistics.protection_task import ReadTables
from sqlanon.statistics.suppression_exact import search_least_cost
from sqlanon.statistics.table_system import Flags, Numbers, Primaries, Task, build_system

SHOWN_ABOVE = 1e6  # times its weight: what it costs to hide a cell that was shown in a sub-table above
MOST_VISITS = 10  # of one sub-table
LONGEST = 5.0  # seconds for one sub-table
GROWS = 1 + 1e-6  # times a need: what is less is no new one


@dataclass(frozen=True)
class SubTable:
    """The variables of a sub-table, its equations by their places in it, and how far below the top it lies."""

    depth: int
    cells: tuple[int, ...]
    equations: tuple[tuple[int, tuple[int, ...]], ...]


def sub_tables(tables: CellTables, read: ReadTables) -> list[SubTable]:
    """All sub-tables, from the top."""
    found = [made for item in tables.tables for made in _of_table(tables, read, item)]
    return sorted(found, key=lambda item: (item.depth, item.cells))


def _of_table(tables: CellTables, read: ReadTables, item: TableCells) -> Iterator[SubTable]:
    dimensions = [tables.dimension(place) for place in item.places]
    for chosen in itertools.product(*(_families(dimension) for dimension in dimensions)):
        depth = sum(own.depths[family[0]] for own, family in zip(dimensions, chosen, strict=True))
        sizes = [len(family) for family in chosen]
        at = {nodes: place for place, nodes in enumerate(itertools.product(*(range(size) for size in sizes)))}
        cells = tuple(
            read.variable(item, sum(node * own.stride for node, own in zip(nodes, dimensions, strict=True)))
            for nodes in itertools.product(*chosen)
        )
        equations = tuple(
            (place, tuple(at[(*nodes[:d], part, *nodes[d + 1 :])] for part in range(1, size)))
            for nodes, place in at.items() for d, size in enumerate(sizes) if nodes[d] == 0
        )  # fmt: skip
        yield SubTable(depth, cells, equations)


def _families(dimension: Dimension) -> list[tuple[int, ...]]:
    """Each parent with its children."""
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(dimension.parents):
        if node:
            below.setdefault(parent, []).append(node)
    return [(parent, *children) for parent, children in below.items()]


def hide_by_level(tables: CellTables, read: ReadTables, settings: Suppression, clock: SolverClock) -> Flags:
    """A pattern that protects each sub-table, as far as that can be had in time."""
    search = _LevelSearch(read.task, sub_tables(tables, read), clock)
    search.run(time.monotonic() + settings.seconds)
    return search.hidden


class _LevelSearch:
    def __init__(self, task: Task, parts: list[SubTable], clock: SolverClock) -> None:
        self.task, self.parts, self.clock = task, parts, clock
        self.hidden = task.least_hidden.copy()
        self._shown_above = np.zeros(task.system.places, dtype=bool)
        self._up, self._down = np.zeros(task.system.cells), np.zeros(task.system.cells)
        self._up[task.primaries.cell] = task.primaries.upper
        self._down[task.primaries.cell] = task.primaries.lower
        self._with: dict[int, list[int]] = {}
        for number, part in enumerate(parts):
            for cell in part.cells:
                self._with.setdefault(int(task.system.place[cell]), []).append(number)

    def run(self, until: float) -> None:
        waiting = list(range(len(self.parts)))
        queued, visits = set(waiting), [0] * len(self.parts)
        while waiting and time.monotonic() < until:
            number = heapq.heappop(waiting)
            queued.discard(number)
            visits[number] += 1
            for place in self._search(self.parts[number], min(LONGEST, max(0.05, until - time.monotonic()))):
                for other in self._with[place]:
                    if other not in queued and other != number and visits[other] < MOST_VISITS:
                        heapq.heappush(waiting, other)
                        queued.add(other)

    def _search(self, part: SubTable, seconds: float) -> list[int]:
        """Hide the cheapest pattern of a sub-table; the places that are new or must move further."""
        system, cells = self.task.system, np.array(part.cells, dtype=np.int64)
        places = system.place[cells]
        shown = self._shown_above[places] & ~self.hidden[places]
        small = build_system(
            list(system.value[cells]), part.equations, low=list(system.low[cells]), high=list(system.high[cells]),
            weight=list(np.where(shown, SHOWN_ABOVE, 1.0) * system.weight[places]),
            forced=list(self.hidden[places]),
        )  # fmt: skip
        levels = [
            (place, float(self._down[cell]), float(self._up[cell]), 0.0)
            for place, cell in enumerate(cells.tolist())
            if self.hidden[places[place]] and (self._up[cell] > 0 or self._down[cell] > 0)
        ]
        self._shown_above[places] = True
        if not levels:
            return []
        task = Task(small, Primaries.of(small, levels))
        auditor = Auditor(task, self.clock)
        try:
            found = search_least_cost(task, seconds, auditor).hidden
        except NotReleased:  # the sub-table alone cannot do it: the audit of the whole will say what is left
            return []
        up, down = self._moves(auditor, found)
        grown = (up > self._up[cells] * GROWS + 1e-6) | (down > self._down[cells] * GROWS + 1e-6)
        new = found & ~self.hidden[places]
        self.hidden[places[found]] = True
        self._up[cells] = np.maximum(self._up[cells], up)
        self._down[cells] = np.maximum(self._down[cells], down)
        return [int(place) for place in dict.fromkeys(places[new | (grown & found)].tolist())]

    def _moves(self, auditor: Auditor, hidden: Flags) -> tuple[Numbers, Numbers]:
        """How far each cell moves where it helps to protect another."""
        up, down = np.zeros(len(hidden)), np.zeros(len(hidden))
        programs = ComponentPrograms(auditor, hidden)
        for primary, side in auditor.task.demands:
            proof = auditor.prove(programs, hidden, 0, primary, side)
            if proof is None:
                continue
            level = auditor.task.level(0, primary, side)
            own = proof.moved.get(int(auditor.task.primaries.cell[primary]), 0.0)
            scale = min(1.0, level / max(abs(own), 1e-12))
            for cell, amount in proof.moved.items():
                if amount > 0:
                    up[cell] = max(up[cell], scale * amount)
                else:
                    down[cell] = max(down[cell], -scale * amount)
        return up, down
