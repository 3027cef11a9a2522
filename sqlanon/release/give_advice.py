"""Advice after a release: what another choice at the same privacy would keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon import algorithms
from sqlanon.errors import SqlanonError
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import FEW_ROWS, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations.matching_classes import matches_any_value

OTHER = "mondrian"  # the algorithm that loses least where it can be used
LOSS = "ncp"  # which every algorithm measures
WORTH = 2 / 3  # of the loss: a difference of less is not worth a word
SECONDS = 5.0
HIDDEN = 1 - 1e-9  # the loss of a column that shows nothing


def give_advice(task: Problem, solution: Solution, attributes: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """One line for each thing that a data owner would want to change; nothing here depends on single rows."""
    found = [*_hidden_columns(attributes)]
    if (better := _loss_of_other(task, solution)) is not None and better < WORTH * solution.loss:
        found.append(
            f"{OTHER} would lose {better:.4f} ({LOSS}) at the same privacy, where this release loses "
            f"{solution.loss:.4f}: say 'algorithm: auto' in the policy, unless each column needs one set of labels"
        )
    return tuple(found)


def _hidden_columns(attributes: list[Mapping[str, Any]]) -> list[str]:
    names = [str(item["name"]) for item in attributes if item["loss"] is not None and item["loss"] >= HIDDEN]
    if not names:
        return []
    what = f"'{names[0]}' is" if len(names) == 1 else f"{', '.join(map(repr, names))} are"
    return [
        f"{what} hidden entirely: give a finer hierarchy, allow more suppression, or ask for fewer quasi-identifiers"
    ]


def _loss_of_other(task: Problem, solution: Solution) -> float | None:
    """The loss of the other algorithm, where a look at it is cheap and the two losses can be compared."""
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
    module = algorithms.search_algorithm(OTHER)
    trial = task.ask_again()
    trial.state.end_after(SECONDS)
    try:
        return module.run(trial, module.Params()).loss
    except (Infeasible, SqlanonError):  # the release is out: what cannot be tried is no reason to fail
        return None
