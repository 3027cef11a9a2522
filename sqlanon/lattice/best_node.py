"""The best of the nodes that were measured, as a solution."""

from __future__ import annotations

from sqlanon.lattice.nodes import Infeasible, Measured
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Candidate, Solution

# Two nodes whose losses differ by less are a tie: sums of floats depend on the order of the rows.
TIE = 1e-12


def is_better(measured: Measured, best: Measured | None) -> bool:
    """Less loss; in a tie less generalization, then the order of the levels, so that equal input gives equal plans."""
    if best is None:
        return True
    gap = measured.loss - best.loss
    if abs(gap) <= TIE * max(1.0, abs(best.loss)):
        return (sum(measured.node), measured.node) < (sum(best.node), best.node)
    return gap < 0


def best_of(problem: Problem) -> Measured | None:
    """The best node among those measured so far."""
    best: Measured | None = None
    for measured in problem.state.measured.values():
        if problem.holds(measured) and is_better(measured, best):
            best = measured
    return best


def build_solution(problem: Problem, best: Measured | None, *, proven: bool, why: str) -> Solution:
    """The solution for a node, with the next-better ones that were measured on the way."""
    if best is None:
        raise Infeasible(problem.state.measured.get(problem.top))
    ranked = sorted(problem.state.measured.values(), key=lambda item: (item.loss, sum(item.node), item.node))
    candidates = [Candidate(item.node, item.loss, item.suppressed, problem.holds(item)) for item in ranked]
    return Solution(
        loss=best.loss,
        suppressed=best.suppressed,
        why=why,
        proven=proven,
        passes=(best.node,),
        candidates=tuple(candidates),
        checks=len(problem.state.measured),
    )
