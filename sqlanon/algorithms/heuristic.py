"""A good full-domain generalization of a lattice that is too large to search: best-first from the top, with a deadline.

From the best node so far, the search shows each column one level finer, and follows the nodes that hold. The result
holds, but is not proven optimal.
cite: Prasser, Bild and Kuhn 2016
"""

from __future__ import annotations

import heapq
import time

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.best_node import best_of, build_solution
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.nodes import Node
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.solution import Solution

BATCH = 8

TRAITS = AlgorithmTraits(brings=OF_NODES, target="class_attribute")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    seconds: float = Field(60.0, gt=0, description="How long to look, if no other time limit is given.")
    class_attribute: str | None = Field(
        None, min_length=1, description="The column that the release should predict, for classification_metric."
    )


def run(problem: Problem, params: Params) -> Solution:
    problem = problem.with_target(params.class_attribute)
    metric = build_metric(problem)
    ends = time.monotonic() + params.seconds
    first = problem.measure([problem.top], metric)[0]
    # Below a node that fails, nested models fail too; others may hold again, so that they are followed as well.
    queue: list[tuple[float, int, Node]] = [(first.loss, 0, problem.top)] if _worth(problem, first.doomed) else []
    seen = {problem.top}
    while queue and not problem.state.out_of_time() and time.monotonic() < ends:
        _, _, node = heapq.heappop(queue)
        finer = [item for item in _finer(node) if item not in seen]
        seen.update(finer)
        for start in range(0, len(finer), BATCH):
            for measured in problem.measure(finer[start : start + BATCH], metric):
                if _worth(problem, measured.doomed):
                    heapq.heappush(queue, (measured.loss, sum(measured.node), measured.node))
        spent = params.seconds - max(ends - time.monotonic(), 0)
        problem.state.tell("looking for a good node", int(10 * spent), int(10 * params.seconds))
    why = f"the best of {len(problem.state.measured):,} nodes that were measured, not proven optimal"
    return build_solution(problem, best_of(problem), proven=False, why=why)


def _worth(problem: Problem, doomed: int) -> bool:
    return doomed <= problem.limit


def _finer(node: Node) -> list[Node]:
    return [(*node[:i], level - 1, *node[i + 1 :]) for i, level in enumerate(node) if level > 0]
