"""Subtree generalization from the roots down: the next split tells most for the privacy that it costs.

All values start at the roots of their trees. Again and again a node of a cut is split into its children: the one with
the largest IG / (PL + 1) among those whose split keeps every model. IG is the information that the split gains about
`class_attribute`, in bits; without one it is the fall of the normalized certainty penalty. PL is the fall of the
anonymity, the size of the smallest class. Only if no split keeps every model, and the policy lets rows be suppressed, a
split follows that suppresses rows but still lowers the penalty; PL is then the number of these rows. The search may be
stopped at any time: each step is a valid result.
cite: Fung, Wang, Yu 2005
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.hierarchy_trees import Forest
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.lattice.split_nodes import Splitting
from sqlanon.lattice.subtree_cuts import Cuts

TRAITS = AlgorithmTraits(target="class_attribute")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    class_attribute: str | None = Field(
        None,
        description="Column that a classifier should predict; detail that helps to predict it is kept.",
    )


def run(problem: Problem, params: Params) -> Solution:
    forest = Forest(problem)
    detail = forest.detail()
    gains = forest.information(params.class_attribute) if params.class_attribute else detail
    cuts = Cuts(problem, forest, downwards=True)
    if problem.records == 0 or cuts.suppressed(cuts.now()):
        raise Infeasible(problem.measure([problem.top], build_metric(problem))[0])
    splitting = Splitting(cuts, gains, detail, suppresses=True)
    splitting.run()
    ended = "no other keeps the models" if splitting.finished else "then the time ran out"
    now = cuts.now()
    return Solution(
        loss=cuts.loss(now),
        suppressed=cuts.suppressed(now),
        why=f"{splitting.steps} splits, {ended}",
        regions=cuts.regions(),
        checks=splitting.checks,
    )
