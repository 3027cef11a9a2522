"""What measured nodes tell about the others, where models are nested: below a node that fails all fail, above one that
holds all hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from sqlanon.errors import PolicyError
from sqlanon.lattice.metrics import Array, Metric, down, up
from sqlanon.lattice.nodes import Node, require_few_nodes
from sqlanon.lattice.problem import Problem

BATCH = 8


@dataclass
class Tags:
    problem: Problem
    metric: Metric
    holds: Array = field(init=False)
    fails: Array = field(init=False)

    def __post_init__(self) -> None:
        require_few_nodes(self.problem.shape)
        self.metric.prepare()
        self.holds = np.zeros(self.problem.shape, dtype=bool)
        self.fails = np.zeros(self.problem.shape, dtype=bool)

    def measure(self, nodes: Sequence[Node]) -> None:
        for measured in self.problem.measure(nodes, self.metric):
            self.metric.learn(measured)
            if self.problem.holds(measured):
                self.holds[up(measured.node)] = True
            else:
                self.fails[down(measured.node)] = True

    def settle(self, nodes: Iterable[Node]) -> Iterator[int]:
        """Measure the nodes of which nothing is known yet, none of them above another; yields after each batch."""
        unknown = (node for node in nodes if not self.holds[node] and not self.fails[node])
        while batch := list(islice(unknown, BATCH)):
            self.measure(batch)
            yield int(self.holds.sum() + self.fails.sum())


def require_nested(problem: Problem, name: str) -> None:
    """Refuse models of which a node that holds tells nothing about the nodes above it."""
    loose = [item.model.name for item in problem.requirements.models if not problem.requirements.is_nested(item)]
    if loose:
        raise PolicyError(
            f"{name} cannot search for {', '.join(dict.fromkeys(loose))}: rows suppressed at a node may be safe below",
            hint="use the algorithm full_domain",
        )


def heights(problem: Problem) -> Array:
    """The height of each node: the sum of its levels."""
    total: Array = np.indices(problem.shape).sum(axis=0)
    return total


def nodes_where(chosen: Array) -> list[Node]:
    """The nodes that are marked, in the order of their levels."""
    return [tuple(int(level) for level in place) for place in np.argwhere(chosen)]
