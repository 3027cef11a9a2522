"""Match the rows of two persons one to one, and generalize each pair just enough that both are alike.

A row of a tree is its cells and, for each child table, the rows below it. Two rows become one that covers both: every
cell becomes the lowest node above both cells, and the rows below are matched in the same way. Rows that find no
partner are suppressed, with all rows below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Cell = tuple[int, int]  # a level, and the place of any value below the node


@dataclass(frozen=True)
class LabelPaths:
    """A quasi-identifier: `paths[place]` are the labels of a value from itself to the root, `losses[place]` what a
    cell with these labels costs."""

    paths: Sequence[Sequence[str]]
    losses: Sequence[Sequence[float]]

    def lowest_common(self, one: Cell, other: Cell) -> Cell:
        """The lowest node above two cells.

        >>> towns = LabelPaths([("Ulm", "BW", "*"), ("Bonn", "NW", "*"), ("Aalen", "BW", "*")], [(0, 0.5, 1)] * 3)
        >>> towns.lowest_common((0, 0), (0, 2)), towns.lowest_common((0, 0), (1, 1))
        ((1, 0), (2, 0))
        """
        level = max(one[0], other[0])
        left, right = self.paths[one[1]], self.paths[other[1]]
        while left[level] != right[level]:
            level += 1
        return level, one[1]

    def loss(self, cell: Cell) -> float:
        return self.losses[cell[1]][cell[0]]


@dataclass
class TreeRow:
    """A row, or what several rows were matched to. `whole` is what it costs to suppress it with all rows below it;
    `nodes` are the rows of signatures that it stands for."""

    table: int
    cells: tuple[Cell, ...]
    below: tuple[list[TreeRow], ...]
    loss: float
    whole: float
    nodes: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many rows there are, with those below."""
        return 1 + sum(row.size for rows in self.below for row in rows)


class Aligner:
    """Matches rows, by the scales of each table."""

    def __init__(self, scales: Sequence[Sequence[LabelPaths]]) -> None:
        self.scales = scales
        self._known: dict[tuple[int, int, Cell, Cell], tuple[Cell, float]] = {}

    def cover(self, table: int, place: int, one: Cell, other: Cell) -> tuple[Cell, float]:
        key = (table, place, one, other)
        if key not in self._known:
            scale = self.scales[table][place]
            cell = scale.lowest_common(one, other)
            self._known[key] = (cell, scale.loss(cell))
        return self._known[key]

    def merge(self, one: TreeRow, other: TreeRow, weights: tuple[int, int]) -> tuple[TreeRow, float]:
        """The row that covers two, and what it costs: for `weights` persons with the one and with the other, how much
        more is lost. The row has no nodes yet."""
        covered = [
            self.cover(one.table, place, *pair) for place, pair in enumerate(zip(one.cells, other.cells, strict=True))
        ]
        below: list[list[TreeRow]] = []
        own = sum(loss for _, loss in covered)
        more = 0.0
        for left, right in zip(one.below, other.below, strict=True):
            pairs, cost = self.align(left, right, weights)
            below.append([self.merge(left[i], right[j], weights)[0] for i, j in pairs])
            more += cost
        mine = one.loss - sum(row.loss for rows in one.below for row in rows)
        theirs = other.loss - sum(row.loss for rows in other.below for row in rows)
        cost = weights[0] * (own - mine) + weights[1] * (own - theirs) + more
        # What is suppressed below costs each person as much as before: it is not in `loss`, but in the cost above.
        loss = own + sum(row.loss for rows in below for row in rows)
        return TreeRow(one.table, tuple(cell for cell, _ in covered), tuple(below), loss, 0.0), cost

    def align(
        self, left: Sequence[TreeRow], right: Sequence[TreeRow], weights: tuple[int, int]
    ) -> tuple[list[tuple[int, int]], float]:
        """The pairs of rows that are matched, the cheapest first, and what is lost in all: with the rows that find no
        partner too."""
        gains = []
        alone = [[weights[side] * (row.whole - row.loss) for row in rows] for side, rows in enumerate((left, right))]
        for i, one in enumerate(left):
            for j, other in enumerate(right):
                cost = self.merge(one, other, weights)[1]
                gains.append((cost - alone[0][i] - alone[1][j], i, j, cost))
        gains.sort()
        used: tuple[set[int], set[int]] = (set(), set())
        pairs, total = [], 0.0
        for _, i, j, cost in gains:
            if i in used[0] or j in used[1]:
                continue
            used[0].add(i)
            used[1].add(j)
            pairs.append((i, j))
            total += cost
        for side, costs in enumerate(alone):
            total += sum(cost for place, cost in enumerate(costs) if place not in used[side])
        return pairs, total

    def unite(self, left: Sequence[TreeRow], right: Sequence[TreeRow], weights: tuple[int, int]) -> list[TreeRow]:
        """The rows that cover both lists, each with the rows of signatures that it stands for."""
        pairs, _ = self.align(left, right, weights)
        return [self._united(left[i], right[j], weights) for i, j in pairs]

    def _united(self, one: TreeRow, other: TreeRow, weights: tuple[int, int]) -> TreeRow:
        covered = [
            self.cover(one.table, place, *pair) for place, pair in enumerate(zip(one.cells, other.cells, strict=True))
        ]
        below = tuple(self.unite(*rows, weights) for rows in zip(one.below, other.below, strict=True))
        lower = [row for rows in below for row in rows]
        loss = sum(cost for _, cost in covered) + sum(row.loss for row in lower)
        whole = one.whole - sum(row.whole for rows in one.below for row in rows) + sum(row.whole for row in lower)
        return TreeRow(one.table, tuple(cell for cell, _ in covered), below, loss, whole, one.nodes + other.nodes)
