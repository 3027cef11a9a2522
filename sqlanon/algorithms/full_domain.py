"""The full-domain generalization with the least loss, exact: each column on one level, classes that fail suppressed.

A best-first search over the lattice. It leaves out only nodes that cannot win, whatever the models and the metric.
Where a model has classes of its own, such as those of some of the columns, the search suppresses a class that has a row
in a broken one; then it measures the models on what is left, until none is broken.
cite: El Emam et al. 2009; Kohlmayer et al. 2012
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.errors import PolicyError
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.best_node import build_solution
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.nodes import Infeasible, Measured, Node
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.search import Search
from sqlanon.lattice.solution import Solution

LOSS = "ncp"  # what each pass minimizes: a mean over records, so that passes add up
MOST_PASSES = 100

TRAITS = AlgorithmTraits(brings=OF_NODES, target="class_attribute", seconds=60.0)


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    recode_suppressed: bool = Field(
        False, description="Generalize the rows that would be suppressed on their own, again and again."
    )
    class_attribute: str | None = Field(
        None, min_length=1, description="The column that the release should predict, for classification_metric."
    )


def run(problem: Problem, params: Params) -> Solution:
    problem = problem.with_target(params.class_attribute)
    if params.recode_suppressed:
        return recode_in_passes(problem)
    search = Search(problem, build_metric(problem))
    best = search.run()
    proven = search.complete
    why = "no other node can lose less" if proven else "the time ran out: the best node so far, not proven optimal"
    if any(item.own is not None for item in problem.requirements.models):
        # Their classes allow less to be left out, which takes time.
        why += f" ({len(problem.state.measured):,} were measured, {problem.state.rounds:,} more than once)"
    return build_solution(problem, best, proven=proven, why=why)


def recode_in_passes(problem: Problem) -> Solution:
    """The optimum with any number of rows suppressed, then the same for those rows, and so on, as ARX's local recoding.

    Classes of different passes that carry equal labels form one class of the release, so models must hold for what is
    merged: they do if they hold under generalization.
    """
    if not all(item.monotone for item in problem.requirements.models):
        raise PolicyError(
            "rows that are recoded on their own may meet others with the same labels, which not every model survives",
            hint="leave 'recode_suppressed' out",
        )
    if any(item.own is not None for item in problem.requirements.models):
        raise PolicyError(
            "rows that are recoded on their own meet others in classes of some of the quasi-identifiers",
            hint="leave 'recode_suppressed' out",
        )
    if problem.table.population is not None:
        raise PolicyError(
            "rows that are recoded on their own cannot be compared with a population",
            hint="leave 'recode_suppressed' out",
        )
    passes: list[Node] = []
    parts: list[tuple[int, float]] = []
    rest = problem.ask_again(limit=problem.records)
    checks = 0
    while rest.records and len(passes) < MOST_PASSES:
        best = Search(rest, build_metric(rest, LOSS)).run()
        checks += len(rest.state.measured)
        if best is None:
            break
        passes.append(best.node)
        kept = rest.records - best.suppressed
        parts.append((kept, (best.loss * rest.records - best.suppressed) / kept if kept else 0.0))
        problem.state.tell("recoding suppressed rows", problem.records - best.suppressed, problem.records)
        rest = _rest(rest, passes, best)
    if rest.records > problem.limit or not passes:  # a release without a single row shown is none
        raise Infeasible(None)
    lost = sum(rows * loss for rows, loss in parts) + rest.records
    return Solution(
        loss=lost / problem.records,
        suppressed=rest.records,
        why=f"{len(passes)} passes, each the optimum for the rows that the one before left",
        passes=tuple(passes),
        checks=checks,
    )


def _rest(rest: Problem, passes: list[Node], best: Measured) -> Problem:
    """The rows that the last pass suppressed, as a table to search."""
    if not best.suppressed:
        return replace(rest, table=replace(rest.table, records=0))
    broken = rest.broken_classes(passes)
    source = rest.rest(passes, broken)
    return rest.ask_of_rest(source, best.suppressed)
