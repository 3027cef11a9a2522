"""Raise the levels of a release, one step at a time, until what it tells beside other releases is little enough."""

from __future__ import annotations

from collections.abc import Sequence

from sqlanon.families import family, plugin
from sqlanon.lattice.best_node import build_solution
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.release.history import AcrossResult


def may_be_raised(task: Problem, solution: Solution, results: Sequence[AcrossResult]) -> bool:
    """Whether levels are ours to choose, and more general ones may mend all that is broken."""
    broken = [result.model.split(",")[0] for result in results if not result.holds]
    helps = all("raise" in plugin("history", name).traits for name in broken)
    return task.policy.algorithm is None and len(solution.passes) == 1 and helps


def find_last_resort(results: Sequence[AcrossResult]) -> frozenset[str]:
    """The models for which rows may wait where no level helps."""
    known = family("history")
    return frozenset(
        result.model for result in results if result.model in known and "wait_last" in known[result.model].traits
    )


def raise_one_level(task: Problem, solution: Solution) -> Solution | None:
    """The release with one quasi-identifier a level higher: of those that hold by themselves, the one that loses least;
    None where every quasi-identifier is at its root, or no such release holds."""
    from sqlanon.lattice.minimized_metric import build_metric  # loads numpy

    node = solution.passes[0]
    above = [
        (*node[:place], level + 1, *node[place + 1 :])
        for place, (level, top) in enumerate(zip(node, task.top, strict=True))
        if level < top
    ]
    measured = [item for item in task.measure(above, build_metric(task)) if task.holds(item)] if above else []
    if not measured:
        return None
    best = min(measured, key=lambda item: (item.loss, item.node))
    return build_solution(task, best, proven=False, why="the levels were raised until it held beside other releases")
