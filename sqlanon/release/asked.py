"""The algorithm that a policy asks for: known, with parameters that it has; errors carry the line of the policy."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from sqlanon import algorithms
from sqlanon.errors import did_you_mean
from sqlanon.policy import Policy, shape, yaml_lines
from sqlanon.policy.yaml_lines import KeyPath, Problem


def require_algorithm(policy: Policy) -> None:
    """Raise a PolicyError for all that is wrong with the algorithm of a policy."""
    problems = list(_problems(policy))
    if problems:
        raise yaml_lines.report(problems, policy._origin)


def is_parted(policy: Policy) -> bool:
    """Whether the algorithm of a policy writes rows itself, in place of a search that says how they are written."""
    use = policy.algorithm
    return use is not None and use.name in algorithms.names() and hasattr(algorithms.algorithm(use.name), "part")


def _problems(policy: Policy) -> Iterator[Problem]:
    use = policy.algorithm
    if use is None:
        return
    path: KeyPath = ("algorithm", use.name)
    if use.name not in algorithms.names():
        hint = did_you_mean(use.name, algorithms.names()) or f"there are {', '.join(algorithms.names())}"
        yield Problem(f"unknown algorithm '{use.name}'", hint, path)
        return
    module = algorithms.algorithm(use.name)
    try:
        read = module.Params.model_validate(use.params)
    except ValidationError as error:
        yield from shape.problems(error, module.Params, use.params, path)
        return
    for column in module.carried(read) if hasattr(module, "carried") else ():
        if column not in policy.columns:
            hint = did_you_mean(column, policy.columns) or "give it a role under 'columns'"
            yield Problem(f"the class attribute '{column}' is no column of the policy", hint, path)
