"""Nodes of the lattice of full-domain generalizations, and what is known of one that was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlanon.errors import PolicyError

Node = tuple[int, ...]  # a level for each quasi-identifier
# The most nodes for which the exact search is chosen; beyond that a heuristic looks for a good one.
MOST_NODES = 2_000_000
# The most for algorithms that a policy asks for, and that mark every node: tens of bytes each.
MOST_NODES_IN_MEMORY = 30_000_000


@dataclass(frozen=True)
class Measured:
    """One node, measured: rows suppressed in all, and by models that are sure to suppress them below it too."""

    node: Node
    suppressed: int
    nested: int
    loss: float
    known: tuple[float, ...] = ()  # what the metric may conclude for the nodes around it
    doomed: int = 0  # rows that every node below has to suppress at least


def require_few_nodes(shape: Node) -> None:
    """Refuse a lattice that does not fit into memory.

    >>> require_few_nodes((5,) * 18)
    Traceback (most recent call last):
    ...
    sqlanon.errors.PolicyError: the lattice has 3.8e+12 nodes, too many for this algorithm
      hint: leave 'algorithm' out, or take heuristic or mondrian
    """
    nodes = math.prod(shape)
    if nodes > MOST_NODES_IN_MEMORY:
        raise PolicyError(
            f"the lattice has {nodes:.1e} nodes, too many for this algorithm",
            hint="leave 'algorithm' out, or take heuristic or mondrian",
        )


class Infeasible(Exception):
    """No node holds. What was measured at the top of the lattice tells why."""

    def __init__(self, top: Measured | None) -> None:
        super().__init__("no generalization meets the requirements")
        self.top = top
