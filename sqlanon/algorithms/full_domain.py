"""The full-domain generalization with the least loss, exact: each column on one level, classes that fail suppressed.

A best-first search over the lattice that leaves out only what cannot win, whatever the models and the metric.
cite: El Emam et al. 2009; Kohlmayer et al. 2012
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from sqlanon.algorithms._problem import Problem
from sqlanon.algorithms._search import Search, found
from sqlanon.algorithms._solution import Solution


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def run(problem: Problem, params: Params) -> Solution:
    search = Search(problem, problem.metric(), batch=4)
    best = search.run()
    proven = search.complete
    why = "no other node can lose less" if proven else "the time ran out: the best node so far, not proven optimal"
    return found(problem, best, proven=proven, why=why)
