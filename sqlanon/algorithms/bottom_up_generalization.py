"""Subtree generalization from the values up: the next merge loses least for the privacy that it gains.

All values start as they are. As long as a model fails, a node replaces all its children: the one with the least IL /
(PG + 1). IL is the information that the merge loses about `class_attribute`, in bits; without one it is the rise of the
normalized certainty penalty. PG is the rise of the anonymity, the size of the smallest class. It ends when the rows in
classes that fail are within the policy's limit; these are suppressed. Then needless merges are undone, the one with the
largest IL / (PG + 1) first, so that no node of the result can be split.
cite: Wang, Yu, Chakraborty 2004
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.hierarchy_trees import Forest, TreeNode
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.lattice.split_nodes import Splitting
from sqlanon.lattice.subtree_cuts import Cuts, CutSizes, smallest

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
    losses = forest.information(params.class_attribute) if params.class_attribute else detail
    cuts = Cuts(problem, forest, downwards=False)
    steps = checks = 0
    now = cuts.now()
    allowed = min(problem.limit, problem.records - 1)  # a release without a row is none
    while cuts.suppressed(now) > allowed and any(cuts.moves):
        if problem.state.out_of_time():
            cuts.to_roots()
        else:
            after = cuts.after()
            checks += sum(map(len, after))
            cuts.generalize(_best_merge(cuts, now, after, losses, detail))
            steps += 1
            problem.state.tell("merging", steps, len(forest.children))
        now = cuts.now()
    if not cuts.suppressed(now) <= allowed:
        raise Infeasible(problem.measure([problem.top], build_metric(problem))[0])
    cuts.take_out_broken()
    cuts.turn_down()
    undoing = Splitting(cuts, losses, detail, suppresses=False)
    undoing.run()
    ended = "" if undoing.finished else "; the time ran out"
    now = cuts.now()
    return Solution(
        loss=cuts.loss(now),
        suppressed=cuts.suppressed(now),
        why=f"{steps} merges until the models held, {undoing.steps} taken back{ended}",
        regions=cuts.regions(),
        checks=checks + undoing.checks,
    )


def _best_merge(
    cuts: Cuts,
    now: Sequence[Mapping[int, CutSizes]],
    after: Sequence[Mapping[int, CutSizes]],
    losses: Mapping[TreeNode, float],
    detail: Mapping[TreeNode, float],
) -> TreeNode:
    """The best trade of information for privacy, among equals the one that hides less, then the first."""

    def rank(node: TreeNode) -> tuple[float, ...]:
        children = {child.code for child in cuts.forest.children[node]}
        gain = privacy_gain(children, now[node.attribute], after[node.attribute][node.code])
        return (losses[node] / (gain + 1), detail[node], node.attribute, node.level, node.code)

    return min((node for moves in cuts.moves for node in moves.values()), key=rank)


def privacy_gain(children: set[int], now: Mapping[int, CutSizes], after: CutSizes) -> int:
    """By how much the smallest class grows when the nodes with the codes `children` become one.

    >>> privacy_gain({4, 5}, {4: CutSizes(2, 2, 0), 5: CutSizes(3, 3, 0), 8: CutSizes(4, 4, 0)}, CutSizes(5, 5, 0))
    2
    """
    others = smallest(sizes for own, sizes in now.items() if own not in children)
    before = min(sizes.smallest for sizes in now.values())
    return (after.smallest if others is None else min(after.smallest, others)) - before
