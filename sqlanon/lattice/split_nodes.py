"""Splitting the nodes of cuts, one after the other, as long as every model holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlanon.lattice.hierarchy_trees import TreeNode
from sqlanon.lattice.subtree_cuts import Cuts, CutSizes, smallest

Gains = Mapping[TreeNode, float]


@dataclass(frozen=True)
class Split:
    """A node that may be split, the classes that this makes, and by how much the smallest class shrinks."""

    node: TreeNode
    after: CutSizes
    privacy_loss: int


@dataclass
class Splitting:
    """`gains` are what a split tells, `detail` by how much it lowers the certainty penalty. With `suppresses`, rows go
    within the policy's limit once no split keeps all of them."""

    cuts: Cuts
    gains: Gains
    detail: Gains
    suppresses: bool
    steps: int = 0
    checks: int = 0
    finished: bool = False  # no further split is possible

    def run(self) -> None:
        problem = self.cuts.problem
        now = self.cuts.now()
        while not problem.state.out_of_time():
            self._split_only_children()
            splits = possible_splits(self.cuts, now)
            self.checks += len(splits)
            chosen = best_split(splits, self.gains, self.detail)
            if chosen is None and self.suppresses:
                chosen = self._best_that_suppresses(splits, now)
            if chosen is None:
                self.finished = True
                return
            if (
                problem.requirements.nested and problem.limit == 0
            ):  # what breaks a model now, breaks it after any further split
                self.cuts.close(split.node for split in splits if split.after.broken)
            self.cuts.specialize(chosen.node)
            if chosen.after.broken:
                self.cuts.take_out_broken()
            self.steps += 1
            problem.state.tell("splitting", self.steps, len(self.cuts.forest.children))
            now = self.cuts.now()

    def _split_only_children(self) -> None:
        """A node with one child that has rows gives way to it: that shows more, and changes no class. Left to the
        order of gains, such a node would hide what the splits below it gain."""
        children = self.cuts.forest.children
        while free := [node for moves in self.cuts.moves for node in moves.values() if len(children[node]) == 1]:
            for node in free:
                self.cuts.specialize(node)

    def _best_that_suppresses(self, splits: Sequence[Split], now: Sequence[dict[int, CutSizes]]) -> Split | None:
        records, limit = self.cuts.problem.records, self.cuts.problem.limit
        left = min(limit, records - 1) - self.cuts.suppressed(now)  # a release without a row is none
        # A row that is suppressed loses what it still shows; the mean over all rows stands for it.
        cost = (1 - self.cuts.loss(now)) / records
        allowed = [
            split
            for split in splits
            if 0 < split.after.broken <= left and self.detail[split.node] > split.after.broken * cost
        ]
        traded = {split.node: self.gains[split.node] / (split.after.broken + 1) for split in allowed}
        return _first(allowed, traded, self.detail)


def possible_splits(cuts: Cuts, now: Sequence[Mapping[int, CutSizes]]) -> list[Split]:
    """All nodes that may be split, measured; those whose rows are all suppressed are not among them."""
    return [
        Split(moves[own], sizes, privacy_loss(own, now[attribute], sizes))
        for attribute, (moves, after) in enumerate(zip(cuts.moves, cuts.after(), strict=True))
        for own, sizes in after.items()
    ]


def privacy_loss(own: int, now: Mapping[int, CutSizes], after: CutSizes) -> int:
    """By how much the smallest class shrinks when the node with the code `own` is split.

    >>> privacy_loss(4, {4: CutSizes(10, 10, 0), 8: CutSizes(6, 6, 0)}, CutSizes(5, 10, 0))
    1
    """
    others = smallest(sizes for other, sizes in now.items() if other != own)
    before = min(sizes.smallest for sizes in now.values())
    return before - (after.smallest if others is None else min(after.smallest, others))


def best_split(splits: Sequence[Split], gains: Gains, detail: Gains) -> Split | None:
    """The best trade of information for privacy, IG / (PL + 1), among the splits after which every model holds."""
    valid = [split for split in splits if not split.after.broken]
    traded = {split.node: gains[split.node] / (split.privacy_loss + 1) for split in valid}
    return _first(valid, traded, detail)


def _first(splits: Sequence[Split], traded: Gains, detail: Gains) -> Split | None:
    """Among equals the one that shows more detail, then the first in order: equal input gives equal plans."""

    def rank(split: Split) -> tuple[float, ...]:
        node = split.node
        return (traded[node], detail[node], -node.attribute, node.level, -node.code)

    return max(splits, key=rank, default=None)
