"""From a solution to the SELECT that writes it, with the temporary tables that it reads."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlanon.algorithms._problem import Problem
from sqlanon.algorithms._solution import Solution
from sqlanon.compiler.classes import Grouping, totals
from sqlanon.compiler.rewrite import HASHED, SHOWN, Output, Pass, by_levels, by_regions


@dataclass(frozen=True)
class Rewriting:
    """`select` is the release; `hidden` are columns that only the checks may see, such as the person key."""

    select: exp.Select
    hidden: tuple[str, ...]
    passes: tuple[Pass, ...] = ()


def rewriting(task: Problem, solution: Solution, secret: str | None) -> Rewriting:
    policy = task.policy
    others: dict[str, str] = {}
    hidden = []
    for name, column in policy.columns.items():
        if column.role in ("sensitive", "insensitive"):
            others[name] = SHOWN
        elif column.role == "identifier" and column.pseudonym:
            others[name] = HASHED
    if policy.person is not None and policy.person not in others and policy.person not in policy.quasi_identifiers:
        others[policy.person] = SHOWN
        hidden.append(policy.person)
    key = _secret(task, secret) if HASHED in others.values() else None
    output = Output(others, policy.sensitive, keep_suppressed=policy.suppressed_rows == "keep", secret=key)
    rows = task.prelude.rows
    if solution.regions is not None:
        ranks = {
            name: totals(task.prelude, Grouping(policy.quasi_identifiers, policy.person), name, numeric=False)
            for name in task.compressed.values
        }
        task.run()
        select = by_regions(
            task.engine.dialect,
            rows,
            task.compressed,
            solution.regions.members,
            solution.regions.labels,
            output,
            values=ranks if solution.regions.by_value else None,
            split=solution.regions.split,
        )
        return Rewriting(select, tuple(hidden))
    passes = tuple(task.passes(solution.passes, suppresses=solution.suppressed > 0))
    select = by_levels(task.engine.dialect, rows, task.compressed, passes, output)
    return Rewriting(select, tuple(hidden), passes)


def _secret(task: Problem, secret: str | None) -> str:
    """The key, in a table of one row: it is loaded, so that no statement holds it. A dry run shows no pseudonym."""
    made = task.prelude.load("secret", (), ("key",), ((secret or "",),), private=True)
    task.run()
    return made
