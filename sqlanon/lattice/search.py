"""Best-first search over the lattice of full-domain generalizations, exact: what it leaves out cannot win.

Next comes the node that removes most candidates whether it holds or not: if it fails, all below it fail; if it holds,
all that are bound to lose more are out.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from sqlanon.lattice.best_node import TIE, is_better
from sqlanon.lattice.metrics import Array, Metric, down, up
from sqlanon.lattice.nodes import Measured, Node, require_few_nodes
from sqlanon.lattice.problem import FEW_ROWS, Problem

MOST = 0.6  # of the open nodes, for which a rolled-up table is worth its making
MANY_STEPS = 4  # that a large table must be rolled up by, to be so much smaller that it pays
NODES = 4  # measured in one statement: four times as many where they share one GROUP BY, one where each takes long


@dataclass
class Search:
    problem: Problem
    metric: Metric
    batch: int = 0
    open: Array = field(init=False)  # nodes that may still be the optimum
    best: Measured | None = None
    checks: int = 0
    _next_roll_up: int = 8
    _tables: list[tuple[Node, str]] = field(default_factory=list)  # each rolled up from the one before

    def __post_init__(self) -> None:
        require_few_nodes(self.problem.shape)
        self.open = np.ones(self.problem.shape, dtype=bool)
        self.metric.prepare()
        if not self.batch:
            few = self.problem.table.rows < FEW_ROWS
            self.batch = 1 if not few else 4 * NODES if self.problem.requirements.plain else NODES

    def run(self) -> Measured | None:
        """The best node that holds, or None; `complete` tells whether it is proven."""
        whole = self.problem.state.source
        self._tables = [(self.problem.table.bottom, whole)]
        small = self.problem.table.rows < FEW_ROWS
        try:
            with self.problem.engine.one_thread() if small else nullcontext():
                self._measure([self.problem.top])
                while not self.problem.state.out_of_time():
                    chosen = self._next()
                    if not chosen:
                        break
                    self._measure(chosen)
                    self._roll_up()
                    left = int(self.open.sum())
                    self.problem.state.tell("searching the lattice", self.open.size - left, self.open.size)
        finally:
            self.problem.state.source, self.metric.floor = whole, None
        return self.best

    def _roll_up(self) -> None:
        """Most of what is left lies above some node: there it can be measured on a smaller table."""
        if self.checks < self._next_roll_up:
            return
        self._next_roll_up = 2 * self.checks
        floor, below = self._common_floor(), self._tables[-1]
        steps = 1 if self.problem.table.rows < FEW_ROWS else MANY_STEPS
        if sum(floor) >= sum(below[0]) + steps and all(a >= b for a, b in zip(floor, below[0], strict=True)):
            self.problem.state.source, self.metric.floor = below[1], below[0]
            self._tables.append((floor, self.problem.rolled_up(floor)))

    def _common_floor(self) -> Node:
        """The highest node, found level by level, that most open nodes lie above."""
        floor = list(self.problem.table.bottom)
        enough = MOST * int(self.open.sum())
        while True:
            raised = []
            for axis, level in enumerate(floor):
                if level + 1 < self.open.shape[axis]:
                    higher = (*floor[:axis], level + 1, *floor[axis + 1 :])
                    raised.append((int(self.open[up(higher)].sum()), axis))
            if not raised or max(raised)[0] < enough:
                return tuple(floor)
            floor[max(raised)[1]] += 1

    def _table(self, node: Node) -> int:
        """The smallest of the rolled-up tables that a node can be measured on."""
        fitting = [
            place
            for place, (floor, _) in enumerate(self._tables)
            if all(level >= least for level, least in zip(node, floor, strict=True))
        ]
        return fitting[-1]

    @property
    def complete(self) -> bool:
        return not self._candidates().any()

    def _measure(self, nodes: list[Node]) -> None:
        """Measure nodes that share a table."""
        floor, self.problem.state.source = self._tables[self._table(nodes[0])]
        self.metric.floor = floor if any(floor) else None
        for measured in self.problem.measure(nodes, self.metric):
            self.checks += 1
            node = measured.node
            self.open[node] = False
            self.metric.learn(measured)
            if measured.doomed > self.problem.limit:
                self.open[down(node)] = False
            if self.problem.holds(measured) and is_better(measured, self.best):
                self.best = measured

    def _candidates(self) -> Array:
        if self.best is None:
            return self.open
        edge = self.best.loss + TIE * max(1.0, abs(self.best.loss))
        np.logical_and(self.open, self.metric.lower <= edge, out=self.open)
        return self.open

    def _next(self) -> list[Node]:
        candidates = self._candidates()
        if not candidates.any():
            return []
        flat = np.flatnonzero(candidates)
        below = _count_below(candidates)
        bounds = self.metric.lower.ravel()[flat]
        order = np.sort(bounds)
        worse = len(flat) - np.searchsorted(order, bounds, side="left")
        # Where nothing may be suppressed, nodes fail more often than they hold.
        score = np.minimum(below.ravel()[flat], worse * (2 if self.problem.limit == 0 else 1))
        if self.metric.rises and self.problem.limit > 0:
            above = np.flip(_count_below(np.flip(candidates))).ravel()[flat]
            # Where no node can fail, none is left out but by what is known of those below it.
            every = self.problem.limit >= self.problem.records
            score = above if every else np.minimum(below.ravel()[flat], above)
        picked: list[Node] = []
        for place in np.argsort(-score, kind="stable")[: 8 * self.batch]:
            node = tuple(int(level) for level in np.unravel_index(flat[place], candidates.shape))
            shares = not picked or self._table(node) == self._table(picked[0])
            if shares and not any(_comparable(node, other) for other in picked):
                picked.append(node)
            if len(picked) == self.batch:
                break
        return picked


def _comparable(one: Node, other: Node) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)


def _count_below(candidates: Array) -> Array:
    """For each node the candidates among itself and the nodes below it."""
    below: Array = candidates.astype(np.int32)
    for axis in range(below.ndim):
        np.cumsum(below, axis=axis, out=below)
    return below
