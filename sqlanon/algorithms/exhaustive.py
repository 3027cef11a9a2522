"""Every node of the lattice is measured: the plain truth, for small lattices and for tests.

cite: Samarati 2001
"""

from __future__ import annotations

import itertools

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.best_node import best_of, build_solution
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.solution import Solution

BATCH = 8

TRAITS = AlgorithmTraits(brings=OF_NODES, target="class_attribute", seconds=60.0)


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    class_attribute: str | None = Field(
        None, min_length=1, description="The column that the release should predict, for classification_metric."
    )


def run(problem: Problem, params: Params) -> Solution:
    problem = problem.with_target(params.class_attribute)
    metric = build_metric(problem)
    nodes = itertools.product(*(range(size) for size in problem.shape))
    every = 1
    for size in problem.shape:
        every *= size
    done = 0
    while batch := list(itertools.islice(nodes, BATCH)):
        problem.measure(batch, metric)
        done += len(batch)
        problem.state.tell("measuring every node", done, every)
        if problem.state.out_of_time():
            break
    return build_solution(problem, best_of(problem), proven=done == every, why="every node was measured")
