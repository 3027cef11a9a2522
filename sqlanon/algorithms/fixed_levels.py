"""Full-domain generalization on levels that the policy gives; classes that fail are suppressed.

For owners who know the levels that their readers need, and for refreshes, where classes must stay what they were.
cite: Samarati and Sweeney 1998
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.best_node import build_solution
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.solution import Solution

TRAITS = AlgorithmTraits(brings=OF_NODES, target="class_attribute")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    levels: dict[str, int] = Field(description="The level of each quasi-identifier; 0 keeps its values.")
    class_attribute: str | None = Field(
        None, min_length=1, description="The column that the release should predict, for classification_metric."
    )


def run(problem: Problem, params: Params) -> Solution:
    problem = problem.with_target(params.class_attribute)
    names = [domain.name for domain in problem.domains]
    for name, level in params.levels.items():
        if name not in names:
            raise PolicyError(f"'{name}' is no quasi-identifier", hint=did_you_mean(name, names))
        highest = problem.top[names.index(name)]
        if not 0 <= level <= highest:
            raise PolicyError(f"'{name}' has no level {level}", hint=f"its levels are 0 to {highest}")
    lacking = [name for name in names if name not in params.levels]
    if lacking:
        raise PolicyError(f"no level is given for {', '.join(lacking)}", hint="name every quasi-identifier")
    (measured,) = problem.measure([tuple(params.levels[name] for name in names)], build_metric(problem))
    kept = measured if problem.holds(measured) else None
    return build_solution(problem, kept, proven=False, why="the levels were given")
