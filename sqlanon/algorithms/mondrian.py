"""Regions of similar rows, cut in halves again and again: far more detail than one level for a whole column.

At first all rows are one region. Each round cuts every region where it saves most certainty penalty, by the weights of
the policy: the best places of its widest quasi-identifiers are compared by what both halves would lose on all of them.
Where a model refuses this cut, and in large regions of tables with more than 131,072 rows, it is the best balanced
place of the widest quasi-identifier; `cut: median` asks for that everywhere. A cut is taken where both halves meet all
models. A region that cannot be cut is done. No row is suppressed. Equal rows stay together, unless `strict: false`:
then cuts are at the median and rows there go to either half, for models that look at no sensitive column.

Cuts are chosen by the quasi-identifiers. Models decide which of them are taken: where these look at sensitive values,
so do the regions.

Labels are ranges: `[20, 29]` for numbers, dates and text, `{France, Asia}` for nodes of a lookup, `{NULL, [20, 29]}`
where NULL is among the values. With `ranges: false` they are the lowest nodes of the hierarchy that cover the range.

With `history` the cuts of earlier releases stay. A region is cut further if both halves hold, also for the persons who
were together so far and for newcomers by themselves; it is never cut anew. Rows of a region that no longer meets the
models are left out, within the suppression limit.
cite: LeFevre, DeWitt and Ramakrishnan 2006
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.regions.cut_regions import Size, find_balanced_cuts, find_half_cuts, points, size
from sqlanon.regions.loss_cuts import find_loss_cuts
from sqlanon.regions.partition import Partition, Parts
from sqlanon.regions.range_labels import solution
from sqlanon.sqltree.tree import table

TRAITS = AlgorithmTraits(history="cuts")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    strict: bool = Field(True, description="Equal rows stay together; if not, rows at the cut may go to either half.")
    cut: Literal["loss", "median"] = Field(
        "loss", description="Where regions are cut: where it saves most, or in the middle."
    )
    ranges: bool = Field(True, description="Labels are ranges of values; if not, nodes of the hierarchies.")


def run(problem: Problem, params: Params) -> Solution:
    if not params.strict:
        _require_plain_counts(problem)
        if problem.requirements.stable is not None:
            raise PolicyError("'strict: false' cannot keep cuts from release to release", hint="leave out 'strict'")

    by_loss = params.strict and params.cut == "loss"

    def choose(work: str, state: str, limits: Size) -> exp.Query:
        if by_loss:
            return find_loss_cuts(problem, work, state, limits, partition.orders, partition.way)
        chosen = find_balanced_cuts if params.strict else find_half_cuts
        return chosen(problem, points(problem, work, table(state, alias="s")), limits)

    partition = Partition(problem, choose, everywhere=by_loss, marks=by_loss, splits=not params.strict)
    parts = partition.run()
    if parts.left_out > problem.limit:
        share = parts.left_out / problem.records
        raise PolicyError(
            f"regions of earlier releases no longer meet the models: {share:.1%} of the rows would be left out",
            hint="raise 'suppression_limit'; the last release is still in place",
        )
    return solution(problem, parts, ranges=params.ranges, split=not params.strict, why=describe_cuts(parts))


def describe_cuts(parts: Parts) -> str:
    if parts.complete:
        return f"no region can be cut further, after {parts.rounds} rounds"
    return f"the time ran out after {parts.rounds} rounds: all models hold, and regions could still be cut"


def _require_plain_counts(problem: Problem) -> None:
    """Which of the rows that are alike go where is decided by their number: nothing may depend on who they are."""
    if problem.compressed.person:
        raise PolicyError("'strict: false' cannot count persons", hint="leave out 'strict', or 'person:'")
    named = [item.use.name for item in problem.requirements.models if item.attribute is not None]
    named += [item.use.name for item in size(problem).others if item.attribute is None]
    if named:
        raise PolicyError(
            f"'strict: false' parts rows that are alike, and {named[0]} depends on which of them go where",
            hint="leave out 'strict', or ask for models without a sensitive column",
        )
