"""The lowest full-domain generalization: binary search for the least height of the lattice at which a node holds.

The height of a node is the sum of its levels. If a node holds, so do the nodes above it; so the search can halve the
heights. Among the nodes of the least height it takes the one with the least loss. Models must stay true upwards, also
where classes are suppressed.
cite: Samarati 2001
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.best_node import TIE, best_of, build_solution, is_better
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.node_tags import BATCH, Tags, heights, nodes_where, require_nested
from sqlanon.lattice.nodes import Measured
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.solution import Solution

TRAITS = AlgorithmTraits(brings=OF_NODES, target="class_attribute", seconds=60.0)


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    class_attribute: str | None = Field(
        None, min_length=1, description="The column that the release should predict, for classification_metric."
    )


def run(problem: Problem, params: Params) -> Solution:
    problem = problem.with_target(params.class_attribute)
    require_nested(problem, "samarati")
    tags = Tags(problem, build_metric(problem))
    tags.measure([problem.top])
    if not tags.holds[problem.top]:
        return build_solution(problem, None, proven=False, why="")
    height = _least_height(tags)
    best = None if height is None else _best_at(tags, height)
    if best is None:
        why = "the time ran out: the best node so far, perhaps not of the least height"
        return build_solution(problem, best_of(problem), proven=False, why=why)
    why = f"no node below height {height} holds, and no other of that height loses less"
    return build_solution(problem, best, proven=problem.policy.minimize == "height", why=why)


def _least_height(tags: Tags) -> int | None:
    """The least height at which a node holds, None if the time runs out."""
    low, high = 0, sum(tags.problem.top)
    while low < high:
        middle = (low + high) // 2
        holds = _any_holds(tags, middle)
        if holds is None:
            return None
        low, high = (low, middle) if holds else (middle + 1, high)
        tags.problem.state.tell("halving the heights", sum(tags.problem.top) - (high - low), sum(tags.problem.top))
    return low


def _any_holds(tags: Tags, height: int) -> bool | None:
    level = heights(tags.problem) == height
    for _ in tags.settle(nodes_where(level)):
        if (tags.holds & level).any():
            return True
        if tags.problem.state.out_of_time():
            return None
    return bool((tags.holds & level).any())


def _best_at(tags: Tags, height: int) -> Measured | None:
    """The node of a height with the least loss, None if the time runs out; what is bound to lose more is left out."""
    problem, metric = tags.problem, tags.metric
    nodes = nodes_where((heights(problem) == height) & ~tags.fails)
    nodes.sort(key=lambda node: (metric.lower[node], node))
    best: Measured | None = None
    while nodes:
        if problem.state.out_of_time():
            return None
        batch, nodes = nodes[:BATCH], nodes[BATCH:]
        tags.measure(batch)
        for measured in problem.measure(batch, metric):
            if problem.holds(measured) and is_better(measured, best):
                best = measured
        if best is not None:
            edge = best.loss + TIE * max(1.0, abs(best.loss))
            nodes = [node for node in nodes if metric.lower[node] <= edge and not tags.fails[node]]
    return best
