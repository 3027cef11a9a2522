"""Advice after a release: what another choice at the same privacy would keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon import algorithms
from sqlanon.algorithms import auto
from sqlanon.errors import SqlanonError
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import FEW_ROWS, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations.matching_classes import matches_any_value

LOSS = "ncp"  # which every algorithm measures
WORTH = 2 / 3  # of the loss: a difference of less is not worth a word
SECONDS = 15.0  # at most; on a machine with nothing else to do it takes one or two
HIDDEN = 1 - 1e-9  # the loss of a column that shows nothing


def give_advice(task: Problem, solution: Solution, attributes: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """One line for each thing that a data owner would want to change; nothing here depends on single rows."""
    found = [*_hidden_columns(attributes)]
    if (other := _try_other(task, solution)) is not None and other[1] < WORTH * solution.loss:
        found.append(
            f"{other[0]} would lose {other[1]:.4f} ({LOSS}) at the same privacy, where this release loses "
            f"{solution.loss:.4f}: say 'algorithm: auto' in the policy, unless each column needs one set of labels"
        )
    return tuple(found)


def _hidden_columns(attributes: list[Mapping[str, Any]]) -> list[str]:
    names = [str(item["name"]) for item in attributes if item["loss"] is not None and item["loss"] >= HIDDEN]
    if not names:
        return []
    what = f"'{names[0]}' is" if len(names) == 1 else f"{', '.join(map(repr, names))} are"
    return [
        f"{what} hidden entirely: give a finer hierarchy, allow more suppression, or declare fewer quasi-identifiers"
    ]


def _try_other(task: Problem, solution: Solution) -> tuple[str, float] | None:
    """The algorithm that mostly loses least, and its loss; where that is cheap, and the two losses can be compared."""
    policy = task.policy
    comparable = (
        not solution.ways  # or it was tried
        and policy.minimize == LOSS
        and policy.history is None
        and task.requirements.only_nodes is None
        and not matches_any_value(policy)
        and not policy.algorithm_traits.distorts
        and not policy.algorithm_traits.guards
    )
    if not comparable or solution.loss == 0 or task.table.rows > FEW_ROWS:
        return None
    name, params = next(auto.find_ways(task))
    module = algorithms.search_algorithm(name)
    trial = task.ask_again()
    trial.state.end_after(SECONDS)
    try:
        return name, module.run(trial, module.Params.model_validate(params)).loss
    except (Infeasible, SqlanonError):  # the release is out: what cannot be tried is no reason to fail
        return None
