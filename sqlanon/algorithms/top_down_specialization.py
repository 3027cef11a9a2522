"""Subtree generalization from the roots down: the split that tells most for the privacy that it costs comes next.

All values start at the roots of their trees. Again and again a node of a cut is split into its children: the one with
the largest IG / (PL + 1) among those whose split keeps every model. IG is the information that the split gains about
`class_attribute`, in bits; without one it is the fall of the normalized certainty penalty. PL is the fall of the
anonymity, the size of the smallest class. Only when no split keeps every model, and the policy lets rows be suppressed,
comes one that suppresses rows but still lowers the penalty; PL is the number of these rows then. The search may be
stopped at any time: each step is a valid result.
cite: Fung, Wang, Yu 2005
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.algorithms._cuts import Cuts, Sizes, smallest
from sqlanon.algorithms._forest import Forest, TreeNode
from sqlanon.algorithms._problem import Problem
from sqlanon.algorithms._search import Infeasible
from sqlanon.algorithms._solution import Solution


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    class_attribute: str | None = Field(
        None, description="Column that a classifier is to predict from the release; detail that tells it is kept."
    )


def carried(params: Params) -> tuple[str, ...]:
    """The columns that the compressed table has to carry for this algorithm."""
    return (params.class_attribute,) if params.class_attribute else ()


@dataclass(frozen=True)
class Split:
    """A node that may be split, the classes that this makes, and by how much the smallest class shrinks."""

    node: TreeNode
    after: Sizes
    privacy_loss: int


def run(problem: Problem, params: Params) -> Solution:
    forest = Forest(problem)
    detail = forest.detail()
    gains = forest.information(params.class_attribute) if params.class_attribute else detail
    cuts = Cuts(problem, forest, at_roots=True)
    now = cuts.now()
    if problem.records == 0 or cuts.suppressed(now):
        raise Infeasible(problem.measure([problem.top], problem.metric())[0])
    steps = checks = 0
    why = "the time ran out after {} splits"
    while not problem.out_of_time():
        splits = _splits(cuts, now)
        checks += len(splits)
        chosen = best_split(splits, gains, detail) or _best_that_suppresses(cuts, now, splits, gains, detail)
        if chosen is None:
            why = "{} splits, and no other keeps the models"
            break
        if problem.nested and problem.limit == 0:  # what breaks a model now, breaks it after any further split
            cuts.close(split.node for split in splits if split.after.broken)
        cuts.specialize(chosen.node)
        if chosen.after.broken:
            cuts.take_out_broken()
        steps += 1
        problem.tell("splitting", steps, len(forest.children))
        now = cuts.now()
    loss, suppressed = cuts.loss(now), cuts.suppressed(now)
    return Solution(loss, suppressed, why.format(steps), regions=cuts.regions(), checks=checks)


def _splits(cuts: Cuts, now: Sequence[Mapping[int, Sizes]]) -> list[Split]:
    """All nodes that may be split; those whose rows are all suppressed are not measured."""
    return [
        Split(moves[own], sizes, privacy_loss(own, now[attribute], sizes))
        for attribute, (moves, after) in enumerate(zip(cuts.moves, cuts.after(), strict=True))
        for own, sizes in after.items()
    ]


def privacy_loss(own: int, now: Mapping[int, Sizes], after: Sizes) -> int:
    """By how much the smallest class shrinks when the node with the code `own` is split.

    >>> privacy_loss(4, {4: Sizes(10, 10, 0), 8: Sizes(6, 6, 0)}, Sizes(5, 10, 0))
    1
    """
    others = smallest(sizes for other, sizes in now.items() if other != own)
    before = min(sizes.smallest for sizes in now.values())
    return before - (after.smallest if others is None else min(after.smallest, others))


def best_split(
    splits: Sequence[Split], gains: Mapping[TreeNode, float], detail: Mapping[TreeNode, float]
) -> Split | None:
    """The best trade of information for privacy, among equals the one that shows more detail, then the first."""

    def rank(split: Split) -> tuple[float, ...]:
        node = split.node
        traded = gains[node] / (split.privacy_loss + 1)
        return (traded, detail[node], -node.attribute, node.level, -node.code)

    return max((split for split in splits if not split.after.broken), key=rank, default=None)


def _best_that_suppresses(
    cuts: Cuts,
    now: Sequence[dict[int, Sizes]],
    splits: Sequence[Split],
    gains: Mapping[TreeNode, float],
    detail: Mapping[TreeNode, float],
) -> Split | None:
    left = cuts.problem.limit - cuts.suppressed(now)
    # A row that is suppressed loses what it still shows; the mean over all rows stands for it.
    cost = (1 - cuts.loss(now)) / cuts.problem.records

    def rank(split: Split) -> tuple[float, ...]:
        node = split.node
        return (gains[node] / (split.after.broken + 1), detail[node], -node.attribute, node.level, -node.code)

    allowed = (
        split for split in splits if 0 < split.after.broken <= left and detail[split.node] > split.after.broken * cost
    )
    return max(allowed, key=rank, default=None)
