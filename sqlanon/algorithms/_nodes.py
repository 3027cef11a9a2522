"""Nodes of the lattice of full-domain generalizations, and what is known of one that was measured."""

from __future__ import annotations

from dataclasses import dataclass

Node = tuple[int, ...]  # a level for each quasi-identifier


@dataclass(frozen=True)
class Measured:
    """One node, measured: rows suppressed in all, and by models that are sure to suppress them below it too."""

    node: Node
    suppressed: int
    nested: int
    loss: float
    known: tuple[float, ...] = ()  # what the metric may conclude for the nodes around it
    doomed: int = 0  # rows that every node below has to suppress at least


class Infeasible(Exception):
    """No node holds. What was measured at the top of the lattice tells why."""

    def __init__(self, top: Measured | None) -> None:
        super().__init__("no generalization meets the requirements")
        self.top = top
