"""All full-domain generalizations that hold, found subset by subset of the quasi-identifiers, and the best of them.

A generalization fails if it fails for some of its columns alone. So single columns come first, then pairs of what held,
and so on. For each subset the search goes upwards; nodes above a node that holds are not measured again. Of all nodes
that hold for all columns, the one with the least loss is taken. Models must stay true upwards, also where classes are
suppressed.
cite: LeFevre, DeWitt, Ramakrishnan 2005
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.best_node import best_of, build_solution
from sqlanon.lattice.metrics import Array
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.node_tags import Tags, heights, nodes_where, require_nested
from sqlanon.lattice.nodes import Node
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.search import Search
from sqlanon.lattice.solution import Candidate, Solution

TRAITS = AlgorithmTraits(brings=OF_NODES, target="class_attribute", seconds=60.0)


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    class_attribute: str | None = Field(
        None, min_length=1, description="The column that the release should predict, for classification_metric."
    )


def run(problem: Problem, params: Params) -> Solution:
    problem = problem.with_target(params.class_attribute)
    require_nested(problem, "incognito")
    tags = Tags(problem, build_metric(problem))
    tags.measure([problem.top])
    if not tags.holds[problem.top]:
        return build_solution(problem, None, proven=False, why="")
    for nodes in _by_subset(problem):
        for settled in tags.settle(nodes):
            problem.state.tell("checking subsets", settled, tags.holds.size)
            if problem.state.out_of_time():
                return build_solution(
                    problem, best_of(problem), proven=False, why="the time ran out: the best node so far"
                )
    search = Search(problem, tags.metric, batch=4)
    search.open = tags.holds.copy()
    best = search.run()
    why = f"the best of all {int(tags.holds.sum())} nodes that hold"
    solution = build_solution(problem, best, proven=search.complete, why=why)
    return replace(solution, candidates=_minimal_first(tags.holds, solution.candidates))


def _by_subset(problem: Problem) -> Iterator[list[Node]]:
    """The nodes of each subset of the columns, the others at their roots: small subsets first, then low nodes."""
    height = heights(problem)
    levels = np.indices(problem.shape)
    at_root = [levels[i] == top for i, top in enumerate(problem.top)]
    columns = range(len(problem.domains))
    for size in range(1, len(problem.domains) + 1):
        for subset in combinations(columns, size):
            chosen = np.ones(problem.shape, dtype=bool)
            for column in columns:
                chosen &= ~at_root[column] if column in subset else at_root[column]
            # A node of the subset with a column at its root was met in a smaller subset.
            for own in np.unique(height[chosen]):
                yield nodes_where(chosen & (height == own))


def _minimal_first(holds: Array, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The nodes below which nothing holds come first: those that LeFevre calls minimal."""

    def is_minimal(node: Node) -> bool:
        below = [(*node[:i], level - 1, *node[i + 1 :]) for i, level in enumerate(node) if level > 0]
        return bool(holds[node]) and not any(holds[other] for other in below)

    return tuple(sorted(candidates, key=lambda item: not is_minimal(item.node)))
