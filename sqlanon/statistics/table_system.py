"""Cells and equations as numbers: what an attacker knows of a table, and what must stay uncertain.

A cell is a variable. Cells of several measures that have the same nodes share a place: they are shown or hidden
together, since a mean or a count beside a sum would tell what the sum hides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Indices = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class TableSystem:
    """`low` and `high` are what everybody knows of each cell; `rows`, `columns` and `signs` are M, where M y = 0."""

    value: Numbers
    low: Numbers
    high: Numbers
    rows: Indices
    columns: Indices
    signs: Numbers
    place: Indices
    weight: Numbers  # of each place: what it costs to hide it
    forced: Flags  # of each place: not published, whatever the pattern

    @property
    def cells(self) -> int:
        return len(self.value)

    @property
    def places(self) -> int:
        return len(self.weight)

    @cached_property
    def known(self) -> Flags:
        """Cells whose value everybody knows."""
        return np.asarray(self.high - self.low <= 0)

    @cached_property
    def hideable(self) -> Flags:
        """Places that help when they are hidden."""
        found = np.zeros(self.places, dtype=bool)
        found[self.place[~self.known]] = True
        return found

    @cached_property
    def equations(self) -> int:
        return int(self.rows.max()) + 1 if len(self.rows) else 0

    @cached_property
    def _by_cell(self) -> tuple[Indices, Indices]:
        order = np.argsort(self.columns, kind="stable")
        starts = np.searchsorted(self.columns[order], np.arange(self.cells + 1))
        return order, starts

    def entries(self, cells: Indices) -> tuple[Indices, Indices, Numbers]:
        """The columns of some cells in M, compressed: where each begins, rows, signs."""
        order, starts = self._by_cell
        counts = starts[cells + 1] - starts[cells]
        begins = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        total = int(begins[-1])
        picked = order[np.repeat(starts[cells] - begins[:-1], counts) + np.arange(total)]
        return begins, self.rows[picked], self.signs[picked]

    def components(self, cells: Indices) -> list[Indices]:
        """Cells that hang together by equations, given that all others are known."""
        begins, rows, _ = self.entries(cells)
        parent = list(range(len(cells)))

        def root(item: int) -> int:
            while parent[item] != item:
                parent[item] = parent[parent[item]]
                item = parent[item]
            return item

        first: dict[int, int] = {}
        for place in range(len(cells)):
            for row in rows[begins[place] : begins[place + 1]].tolist():
                other = first.setdefault(row, place)
                if other != place:
                    parent[root(place)] = root(other)
        groups: dict[int, list[int]] = {}
        for place in range(len(cells)):
            groups.setdefault(root(place), []).append(place)
        return [cells[np.array(group, dtype=np.int64)] for group in groups.values()]


@dataclass(frozen=True)
class Primaries:
    """Unsafe cells: how far below and above their value an attacker's bounds must lie, and how far apart."""

    cell: Indices
    lower: Numbers
    upper: Numbers
    sliding: Numbers

    def __len__(self) -> int:
        return len(self.cell)

    @staticmethod
    def of(system: TableSystem, levels: Iterable[tuple[int, float, float, float]]) -> Primaries:
        """From (cell, lower, upper, sliding); a lower level cannot reach below what is known anyway."""
        listed = sorted(levels)
        cell = np.array([item[0] for item in listed], dtype=np.int64)
        lower, upper, sliding = (np.array([item[at] for item in listed], dtype=np.float64) for at in (1, 2, 3))
        room = system.value[cell] - system.low[cell] if len(cell) else lower
        return Primaries(cell, np.minimum(lower, room), upper, sliding)


@dataclass(frozen=True)
class Intruder:
    """A contributor who knows their own amounts: all of the cells where they are alone, and a part of others."""

    alone: Indices
    cells: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    amounts: Numbers = field(default_factory=lambda: np.zeros(0))
    uses_parts: bool = True  # whether they make use of these; what they could know anyway need not be protected


OUTSIDER = Intruder(np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class Task:
    """What must be protected, and from whom; the first attacker is an outsider."""

    system: TableSystem
    primaries: Primaries
    intruders: tuple[Intruder, ...] = (OUTSIDER,)

    @cached_property
    def unsafe_places(self) -> Flags:
        found = np.zeros(self.system.places, dtype=bool)
        found[self.system.place[self.primaries.cell]] = True
        return found

    @property
    def least_hidden(self) -> Flags:
        return self.unsafe_places | self.system.forced

    def cost(self, hidden: Flags) -> float:
        """What a pattern costs beside what is hidden in any case."""
        return float(self.system.weight[hidden & ~self.least_hidden].sum())

    @cached_property
    def _outside(self) -> tuple[Numbers, Numbers]:
        return self.system.low - self.system.value, self.system.high - self.system.value

    def bounds(self, who: int) -> tuple[Numbers, Numbers]:
        """How far each cell may deviate from its value, as an attacker sees it."""
        low, high = self._outside
        intruder = self.intruders[who]
        if len(intruder.cells) or len(intruder.alone):
            low, high = low.copy(), high.copy()
            floors = self.floors(who)
            low[list(floors)] = list(floors.values())
            low[intruder.alone] = high[intruder.alone] = 0.0
        return low, high

    def floors(self, who: int) -> dict[int, float]:
        """How far down cells may deviate of which an attacker holds a part, and makes use of it."""
        return self._parts(who) if self.intruders[who].uses_parts else {}

    def _parts(self, who: int) -> dict[int, float]:
        if who not in self._floors:
            intruder, low = self.intruders[who], self._outside[0]
            held = intruder.amounts - self.system.value[intruder.cells]
            floors = np.minimum(0.0, np.maximum(low[intruder.cells], held))
            self._floors[who] = dict(zip(intruder.cells.tolist(), floors.tolist(), strict=True))
        return self._floors[who]

    @cached_property
    def _floors(self) -> dict[int, dict[int, float]]:
        return {}

    @cached_property
    def _alone(self) -> list[frozenset[int]]:
        return [frozenset(intruder.alone.tolist()) for intruder in self.intruders]

    def fits(self, who: int, moved: Mapping[int, float]) -> bool:
        """Whether an attacker, who knows more than an outsider, can believe in deviations that an outsider can."""
        known = self._lowest(who)
        if len(known) <= len(moved):
            return not any(cell in moved and moved[cell] < least for cell, least in known.items())
        return not any(cell in known and amount < known[cell] for cell, amount in moved.items())

    def _lowest(self, who: int) -> dict[int, float]:
        """How far down cells may deviate of which an attacker knows something; infinite where any deviation is one too
        many."""
        if who not in self._watched:
            floors = {cell: floor - 1e-7 for cell, floor in self.floors(who).items()}
            self._watched[who] = floors | dict.fromkeys(self._alone[who], np.inf)
        return self._watched[who]

    @cached_property
    def _watched(self) -> dict[int, dict[int, float]]:
        return {}

    @cached_property
    def attackers_of(self) -> dict[int, list[int]]:
        """Those who know something of a cell beside what everybody knows."""
        found: dict[int, list[int]] = {}
        for who, intruder in enumerate(self.intruders):
            for cell in (*intruder.alone.tolist(), *intruder.cells.tolist()):
                found.setdefault(cell, []).append(who)
        return found

    def level(self, who: int, primary: int, side: int) -> float:
        """What must be left open to one attacker: above the value (side 1), below it (-1), or in width (0). Whoever
        holds a part of a cell knows that it is not below that part."""
        cell = int(self.primaries.cell[primary])
        if cell in self._alone[who]:
            return 0.0
        if side == 0:
            return float(self.primaries.sliding[primary])
        if side > 0:
            return float(self.primaries.upper[primary])
        floor = self._parts(who).get(cell)
        below = float(self.primaries.lower[primary])
        return below if floor is None else min(below, -floor)

    @cached_property
    def demands(self) -> list[tuple[int, int]]:
        """What must be left open: (primary, side)."""
        found = []
        for primary in range(len(self.primaries)):
            found += [(primary, side) for side in (1, -1) if self.level(0, primary, side) > 0]
        return found

    @cached_property
    def wide(self) -> list[int]:
        """Primaries with a level for the width."""
        return [int(primary) for primary in np.flatnonzero(self.primaries.sliding > 0)]


def build_system(
    value: Sequence[float],
    equations: Iterable[tuple[int, Iterable[int]]],
    *,
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    weight: Sequence[float] | None = None,
    place: Sequence[int] | None = None,
    forced: Sequence[bool] | None = None,
) -> TableSystem:
    """A system from lists: each equation is a total and its parts.

    >>> build_system([3, 1, 2], [(0, [1, 2])]).equations
    1
    """
    rows: list[int] = []
    columns: list[int] = []
    signs: list[float] = []
    for row, (total, parts) in enumerate(equations):
        members = [(total, -1.0), *((part, 1.0) for part in parts)]
        rows += [row] * len(members)
        columns += [cell for cell, _ in members]
        signs += [sign for _, sign in members]
    numbers = np.array(value, dtype=np.float64)
    places = np.arange(len(numbers)) if place is None else np.array(place, dtype=np.int64)
    count = int(places.max()) + 1 if len(places) else 0
    return TableSystem(
        value=numbers,
        low=np.zeros(len(numbers)) if low is None else np.array(low, dtype=np.float64),
        high=np.full(len(numbers), np.inf) if high is None else np.array(high, dtype=np.float64),
        rows=np.array(rows, dtype=np.int64),
        columns=np.array(columns, dtype=np.int64),
        signs=np.array(signs, dtype=np.float64),
        place=places,
        weight=numbers.copy() if weight is None else np.array(weight, dtype=np.float64),
        forced=np.zeros(count, dtype=bool) if forced is None else np.array(forced, dtype=bool),
    )
