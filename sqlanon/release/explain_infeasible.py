"""Why nothing can be published: which requirement cannot be met, and the nearest setting that could."""

from __future__ import annotations

from collections.abc import Sequence

from sqlanon.errors import NotReleased, number
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.pose_problem import SEARCHED
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.requirements import Requirement
from sqlanon.sqltree.tree import find_references


def infeasible_error(task: Problem) -> NotReleased:
    """The error for a search that found nothing. It claims no more than the search knows: nothing is impossible only
    because the time ran out, or because a heuristic or a local algorithm did not come across it."""
    timed_out = task.state.out_of_time()
    # Where what is suppressed at the top is suppressed at every node, no search could have found anything.
    # What only the algorithm itself can measure, such as chances in a sample, is not measured here.
    known = [item for item in task.requirements.models if find_references(item.model.sql) <= SEARCHED | OF_NODES]
    alone = [(item, *_at_the_top(task, item)) for item in known if task.requirements.is_nested(item)]
    lines = [_line(task, item, measured) for item, broken, measured in alone if broken]
    if lines:
        return NotReleased(
            "no generalization meets the requirements: even with every quasi-identifier hidden",
            detail="\n".join(lines),
            hint="loosen these requirements, or publish a larger table",
        )
    if timed_out:
        return NotReleased(
            "the time limit ended the search before it found a generalization that meets the requirements",
            detail=f"{len(task.state.measured):,} generalizations were measured",
            hint="raise --time-limit",
        )
    if not task.requirements.may_suppress:
        return _without_suppression(task, known)
    limit = task.policy.suppression_limit
    # What was never measured, since it could not win, may come nearer than this.
    least = min((item.suppressed for item in task.state.measured.values()), default=task.records)
    share = least / max(task.records, 1) + 0.0005
    detail = hint = None
    if least < task.records:
        rows = f"{least:,} of {task.records:,} rows"
        detail = f"of {len(task.state.measured):,} generalizations measured, the nearest would suppress {rows}"
        hint = f"a suppression_limit of {share:.1%} would do, or looser requirements" if limit < share < 1 else None
    elif limit < 1:
        hint = "loosen the requirements, or allow more suppression"
    return NotReleased(
        f"no generalization was found that meets the requirements within the suppression limit of {limit:.1%}",
        detail=detail,
        hint=hint or "loosen the requirements",
    )


def _without_suppression(task: Problem, known: Sequence[Requirement]) -> NotReleased:
    """Where a class of the population has to have a released row, the suppression limit plays no part."""
    asking = next(item for item in task.requirements.models if item.everybody)
    at_top = [(item, *_at_the_top(task, item)) for item in known]
    lines = [_line(task, item, measured, "does not hold with every quasi-identifier hidden")
             for item, broken, measured in at_top if broken]  # fmt: skip
    return NotReleased(
        "no generalization was found that meets the requirements, and "
        f"delta_min of {asking.model.name} allows no row to be suppressed",
        detail="\n".join(lines) or f"{len(task.state.measured):,} generalizations were measured",
        hint="lower 'delta_min', or loosen the other requirements: a larger suppression_limit would not help",
    )


def _at_the_top(task: Problem, item: Requirement) -> tuple[bool, float | None]:
    """Whether a requirement alone fails with all rows in one class, and what was measured."""
    single = task.ask_again(models=(item,), limit=0)
    broken = single.measure([task.top], build_metric(single, "height"))[0].suppressed > 0
    return broken, single.measured_value(task.top)


def _line(task: Problem, item: Requirement, measured: float | None, verdict: str = "cannot hold") -> str:
    asked = ", ".join(f"{key}={value}" for key, value in item.use.params.items() if not isinstance(value, list | dict))
    of = f" of '{item.attribute}'" if item.attribute else ""
    what = item.model.measures.split(";")[0]
    whole = item.own is None or item.own.whole
    where = f"all {task.records:,} rows together measure" if whole else "the worst class measures"
    found = f": {where} {number(measured)} ({what})" if measured is not None else ""
    return f"{item.model.name}{of} ({asked}) {verdict}{found}"
