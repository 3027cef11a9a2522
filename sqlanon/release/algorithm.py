"""The algorithm that a policy names: its module and its parameters, with the line of what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from sqlanon import algorithms
from sqlanon.errors import did_you_mean
from sqlanon.policy import Policy, shape


@dataclass(frozen=True)
class Asked:
    """`carries` are columns that the algorithm counts beside those of the models, such as a class attribute; `brings`
    are relations that it makes itself, so that it reaches models that others cannot."""

    name: str
    module: ModuleType
    params: Any
    carries: tuple[str, ...]
    brings: frozenset[str]


def asked(policy: Policy) -> Asked | None:
    use = policy.algorithm
    if use is None:
        return None
    path = ("algorithm", use.name)
    if use.name not in algorithms.names():
        hint = did_you_mean(use.name, algorithms.names()) or f"there are {', '.join(algorithms.names())}"
        raise policy.error(f"unknown algorithm '{use.name}'", *path, hint=hint)
    module = algorithms.algorithm(use.name)
    try:
        params = module.Params.model_validate(use.params)
    except ValidationError as error:
        raise policy.reported(shape.problems(error, module.Params, use.params, path)) from None
    carries: tuple[str, ...] = module.carried(params) if hasattr(module, "carried") else ()
    for name in carries:
        if name not in policy.columns:
            hint = did_you_mean(name, policy.columns) or "give it a role under 'columns'"
            raise policy.error(f"the class attribute '{name}' is no column of the policy", *path, hint=hint)
    return Asked(use.name, module, params, carries, getattr(module, "BRINGS", frozenset()))
