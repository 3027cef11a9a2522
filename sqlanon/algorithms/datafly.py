"""Greedy full-domain generalization: the column with the most distinct values goes up one level, until few rows are
left in classes that fail; these are suppressed.

Fast, and rarely the best: full_domain finds the best. Sweeney suppresses up to k rows; here the limit is that of the
policy, which a release may not exceed.
cite: Sweeney 1998; Sweeney 2002
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.best_node import build_solution
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.sqltree.tree import table

TRAITS = AlgorithmTraits(brings=OF_NODES, target="class_attribute")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    class_attribute: str | None = Field(
        None, min_length=1, description="The column that the release should predict, for classification_metric."
    )


def run(problem: Problem, params: Params) -> Solution:
    problem = problem.with_target(params.class_attribute)
    metric = build_metric(problem)
    distinct = _distinct_values(problem)
    node = problem.top if problem.state.out_of_time() else problem.table.bottom
    while True:
        (measured,) = problem.measure([node], metric)
        problem.state.tell("generalizing", sum(node), sum(problem.top))
        open_columns = [i for i, level in enumerate(node) if level < problem.top[i]]
        if problem.holds(measured):
            why = "the first that holds when the column with the most distinct values goes up"
            return build_solution(problem, measured, proven=False, why=why)
        if not open_columns:
            return build_solution(problem, None, proven=False, why="")
        if problem.state.out_of_time():
            node = problem.top
            continue
        chosen = max(open_columns, key=lambda i: (distinct[i][node[i]], -i))
        node = (*node[:chosen], node[chosen] + 1, *node[chosen + 1 :])


def _distinct_values(problem: Problem) -> list[list[int]]:
    """For each column and level below the root the number of labels that occur."""
    found_counts = []
    for domain in problem.domains:
        counts = [exp.Count(this=exp.Distinct(expressions=[exp.column(f"n{level}")])) for level in range(domain.height)]
        row = problem.engine.query(exp.select(*counts).from_(table(domain.dictionary)))[0]
        found_counts.append([int(value) for value in row])
    return found_counts
