"""Why nothing can be published: which requirement cannot be met, and the nearest setting that could."""

from __future__ import annotations

from dataclasses import replace

from sqlanon.algorithms._classes import Requirement
from sqlanon.algorithms._posing import SEARCHED
from sqlanon.algorithms._problem import OF_NODES, Problem
from sqlanon.compiler.tree import referenced
from sqlanon.errors import PolicyError, number


def blocked(task: Problem) -> PolicyError:
    # What only the algorithm itself can measure, such as chances in a sample, is not measured here.
    known = [item for item in task.requirements if referenced(item.model.sql) <= SEARCHED | OF_NODES]
    alone = [(item, *_at_the_top(task, item)) for item in known]
    lines = [_line(task, item, measured) for item, broken, measured in alone if broken]
    if lines:
        return PolicyError(
            "no generalization meets the requirements: even with every quasi-identifier hidden",
            detail="\n".join(lines),
            hint="loosen these requirements, or publish a larger table",
        )
    least = min((item.suppressed for item in task.measured.values()), default=task.records)
    share = least / max(task.records, 1)
    if least >= task.records:
        return PolicyError(
            "the algorithm found no generalization that meets the requirements and keeps a row",
            hint="loosen the requirements, raise 'suppression_limit', or take another algorithm",
        )
    return PolicyError(
        f"no generalization meets the requirements within the suppression limit of {task.policy.suppression_limit:.1%}",
        detail=f"at least {least:,} of {task.records:,} rows had to be suppressed",
        hint=f"a suppression_limit of {min(1.0, share + 0.0005):.1%} would do, or looser requirements",
    )


def _at_the_top(task: Problem, item: Requirement) -> tuple[bool, float | None]:
    """Whether a requirement alone fails with all rows in one class, and what was measured."""
    single = replace(task, requirements=(item,), measured={}, limit=0, _statements={})
    broken = single.measure([task.top], single.metric("height"))[0].suppressed > 0
    return broken, single.measured_value(task.top)


def _line(task: Problem, item: Requirement, measured: float | None) -> str:
    asked = ", ".join(f"{key}={value}" for key, value in item.use.params.items() if not isinstance(value, list | dict))
    of = f" of '{item.attribute}'" if item.attribute else ""
    what = item.model.measures.split(";")[0]
    found = f": all {task.records:,} rows together measure {number(measured)} ({what})" if measured is not None else ""
    return f"{item.model.name}{of} ({asked}) cannot hold{found}"
