"""Several ways to anonymize, of which the release with the least loss is taken.

It tries regions (`mondrian`), the best level of each column (`full_domain`, or `heuristic` where there are too many
combinations of levels), the same with suppressed rows generalized again (`recode_suppressed`), and local recoding from
the bottom (`bottom_up_recoding`, where the models allow it) and from the top (`top_down_recoding`), in this order.
Where models look at the size of classes alone, recoding from the bottom is fast and comes second. The first takes the
time that it needs; all others together take at most 1.6 times that time, or two seconds. A way that cannot meet the
models of the policy is left out.

All ways promise the same privacy, and differ in what readers get: one level for a whole column, or regions whose labels
differ from row to row. Regions and passes are compared by `ncp` alone: where `minimize` names another metric, only the
levels of the columns are searched. With `history` leave `algorithm` out: what was released before decides.

This is the default. A policy that names no algorithm, and has a `history` or asks for what only levels can do
(another metric to minimize, a population), gets `full_domain`, or `heuristic` where its lattice is too large.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from sqlanon import algorithms
from sqlanon.algorithms import bottom_up_recoding
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.nodes import MOST_NODES, Infeasible
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.solution import Solution, Way

TRAITS = AlgorithmTraits(brings=OF_NODES)
COMPARED = "ncp"  # the loss that every way measures
LEAST_SECONDS = 2.0  # for the ways after the first
SHARE = 1.6  # of the seconds of the first: all together take three times as long at most, with their last statements
EQUAL = 1e-12  # losses that differ by less are the same


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def run(problem: Problem, params: Params) -> Solution:
    if problem.policy.history is not None:
        raise PolicyError("'auto' does not look at earlier releases", hint="leave 'algorithm' out, or name one of them")
    found: list[Solution] = []
    ways: list[Way] = []
    failure: Infeasible | PolicyError | None = None
    deadline, ends = problem.state.deadline, None
    for name, given in find_ways(problem):
        start = time.monotonic()
        if ends is not None and found and start >= ends:
            ways.append(Way(name, given, why="not tried: the others took the time"))
            continue
        module = algorithms.search_algorithm(name)
        limits = [moment for moment in (deadline, ends if found else None) if moment is not None]
        problem.state.deadline = min(limits, default=None)
        try:
            solution = module.run(problem.ask_again(), module.Params.model_validate(given))
        except NotReleased:
            raise
        except Infeasible as error:
            failure = error
            ways.append(Way(name, given, why="no release meets the models within the suppression limit"))
        except PolicyError as error:
            failure = failure or error
            ways.append(Way(name, given, why=f"cannot do it: {error.message}"))
        else:
            way = Way(name, given, solution.loss, solution.suppressed, solution.why, solution.labels)
            found.append(replace(solution, way=way))
            ways.append(way)
        finally:
            problem.state.deadline = deadline
        if ends is None and found:
            ends = time.monotonic() + max(LEAST_SECONDS, SHARE * (time.monotonic() - start))
    if not found:
        raise failure or Infeasible(None)
    least = min(item.loss for item in found)
    best = min((item for item in found if item.loss <= least + EQUAL), key=_complexity)
    return replace(best, ways=tuple(ways), why=_describe(best, found))


def _complexity(solution: Solution) -> float:
    """Of ways that lose the same, one level for each column is the easiest to read and to repeat."""
    return math.inf if solution.regions is not None else len(solution.passes)


def _describe(best: Solution, found: list[Solution]) -> str:
    assert best.way is not None
    # How many ways there was time for is not said: the plan of the same release must stay the same.
    name = best.way.algorithm
    return f"{name}: {best.why}" if len(found) == 1 else f"{name}, the least loss of what was tried: {best.why}"


def has_choice(problem: Problem) -> bool:
    """Whether there is more than one way to try."""
    return len(list(find_ways(problem))) > 1


def find_ways(problem: Problem) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The algorithms that may do what is asked for, with their parameters; the one that mostly loses least is first."""
    only_levels = problem.requirements.minimize != COMPARED or problem.requirements.only_nodes is not None
    recodes = not only_levels and any(domain.height > 1 for domain in problem.domains)
    from_below = recodes and not bottom_up_recoding.find_obstacle(problem)
    in_memory = bottom_up_recoding.counts_rows(problem)  # then it takes less time than the others
    if not only_levels:
        yield "mondrian", {}
    if from_below and in_memory:
        yield "bottom_up_recoding", {}
    nodes = math.prod(problem.shape)
    if nodes <= MOST_NODES:
        yield "full_domain", {}
        if not only_levels and problem.limit < problem.records:
            yield "full_domain", {"recode_suppressed": True}
    else:
        yield "heuristic", {}
    if from_below and not in_memory:
        yield "bottom_up_recoding", {}
    if recodes:
        yield "top_down_recoding", {}
