"""Mondrian for a release that will train a classifier: each cut is the one that tells most about a class column.

As `mondrian`, but a round measures all cuts of all quasi-identifiers of a region. It takes the cut with the largest
information gain about `class_attribute` among those whose halves meet all models. Where no cut gains anything, it takes
the best balanced one. It costs more than `mondrian`, and its regions are less even in size and width.
cite: LeFevre, DeWitt and Ramakrishnan 2006, 2008
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.algorithms.mondrian import describe_cuts
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.regions.cut_regions import Size, find_gain_cuts, points_everywhere
from sqlanon.regions.partition import Partition
from sqlanon.regions.range_labels import solution
from sqlanon.sqltree.tree import literal

TRAITS = AlgorithmTraits(target="class_attribute")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    class_attribute: str = Field(min_length=1, description="The column that the release should predict.")
    ranges: bool = Field(True, description="Labels are ranges of values; if not, nodes of the hierarchies.")


def run(problem: Problem, params: Params) -> Solution:
    kind = _kind(problem, params.class_attribute)

    def choose(work: str, state: str, limits: Size) -> exp.Select:
        return find_gain_cuts(problem, points_everywhere(problem, work, state, kind), limits)

    parts = Partition(problem, choose, everywhere=True).run()
    return solution(problem, parts, ranges=params.ranges, split=False, why=describe_cuts(parts))


def _kind(problem: Problem, name: str) -> exp.Expr:
    """The class of a row: a column that was carried, or the bits of a quasi-identifier."""
    packed = problem.compressed
    if name in packed.values:
        return exp.column(packed.values[name], table="w")
    for domain in packed.domains:
        if domain.name == name:
            key = exp.column(packed.key_names[domain.key], table="w")
            return exp.BitwiseAnd(this=key, expression=literal(domain.masks[0]))
    raise PolicyError(
        f"the column '{name}' that cuts are to tell about is not counted",
        hint=did_you_mean(name, problem.policy.columns),
    )
