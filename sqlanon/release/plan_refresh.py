"""What a refresh would change: the release is written into a temporary table, measured, and forgotten again."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.plan import Plan
from sqlanon.policy import Policy, Source
from sqlanon.release import versions
from sqlanon.release.check_release import require_kept
from sqlanon.release.choose_maker import maker_of
from sqlanon.release.evidence_document import add_history, describe_release, without_originals
from sqlanon.release.history import compare, require_history, require_safe
from sqlanon.release.history.history_tables import kept_versions
from sqlanon.release.made_release import Making, check_made, compare_patterns, describe_made, stage_aside
from sqlanon.release.publication import Progress
from sqlanon.release.rewrite_release import plan_rewriting
from sqlanon.release.second_draws import require_same_draws, require_same_scales
from sqlanon.release.solve_policy import prepare_problem, solve_problem
from sqlanon.release.targets.choose_target import target_of
from sqlanon.release.targets.target import Staged, Target

PLANNED = "release_planned_by_sqlanon"


@dataclass(frozen=True)
class RefreshPlan:
    """`document` is the evidence as it would be, `current` that of the release that is shown, if there is one;
    `refused` says why nothing would be published."""

    plan: Plan | None
    document: Mapping[str, Any] | None
    current: Mapping[str, Any] | None
    refused: PolicyError | None = None


class _Undone(Exception):
    """Ends a transaction that was never meant to last."""


def plan_refresh(
    policy: Policy, engine: Engine, *, secret: str | None = None, progress: Progress | None = None
) -> RefreshPlan:
    """Everything that `publish` does up to the swap; nothing of it is kept."""
    given = policy.release
    if given is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {view: patients_released}'")
    current = versions.evidence_shown(policy, engine)
    plan: Plan | None = None
    try:
        target = target_of(policy, engine)
        if target.kind != "path":
            require_history(policy, engine, target.name)
        require_same_draws(policy, engine, secret)
        if (maker := maker_of(policy)) is not None:
            return _of_made(maker[1](policy, engine, secret), target, current, secret)
        task = prepare_problem(policy, engine, progress=progress, secret=secret)
    except PolicyError as error:
        return RefreshPlan(None, None, current, error)
    found: dict[str, Any] = {}
    try:
        require_same_scales(policy, engine)
        solution, plan = solve_problem(task)
        how = plan_rewriting(task, solution, secret)
        with engine.transaction():
            engine.create_temporary(PLANNED, how.select)
            staged = Staged(PLANNED, Source(table=PLANNED), how.hidden)
            beside = None
            # Before the first release there is nothing to compare it with.
            if policy.history is not None and kept_versions(engine, target.name):
                beside = compare(task.policy, engine, staged, target.name, secret)
                require_safe(beside)
            measured = check(task.policy, engine, release=staged.source, hidden=staged.hidden, limit=0)
            require_kept(measured)
            evidence = describe_release(task, solution, plan, how, measured, target, staged)
            if beside is not None:
                evidence = add_history(evidence, beside.described(), solution.waiting)
            if policy.history is not None:
                evidence = without_originals(evidence)
            found = evidence.to_json()
            raise _Undone
    except _Undone:
        return RefreshPlan(plan, found, current)
    except PolicyError as error:
        return RefreshPlan(plan, None, current, error)
    finally:
        task.close()


def _of_made(making: Making, target: Target, current: Mapping[str, Any] | None, secret: str | None) -> RefreshPlan:
    """The same where an algorithm makes the rows itself."""
    with making as made:
        found: dict[str, Any] = {}
        try:
            require_same_scales(made.asked, made.engine)
            with made.engine.transaction():
                staged = stage_aside(made, PLANNED)
                measured = check_made(made, staged)
                pattern = compare_patterns(made, staged, secret)
                found = describe_made(made, measured, target, staged, pattern).to_json()
                raise _Undone
        except _Undone:
            return RefreshPlan(made.plan, found, current)
        except PolicyError as error:
            return RefreshPlan(made.plan, None, current, error)


def differences(one: Mapping[str, Any] | None, other: Mapping[str, Any]) -> dict[str, Any]:
    """What differs between the evidence of two releases, or of none and the first one: pairs of before and after."""
    earlier: Mapping[str, Any] = one or {}
    pairs = {
        "rows": (earlier.get("released"), other["released"]),
        "suppressed": (earlier.get("suppressed"), other["suppressed"]),
        "held back": tuple(item.get("history", {}).get("held_back") for item in (earlier, other)),
        "algorithm": tuple(item.get("plan", {}).get("algorithm") for item in (earlier, other)),
        other["minimize"]: tuple(item.get("plan", {}).get("loss") for item in (earlier, other)),
        **_by("level of ", _levels(earlier), _levels(other)),
        **_by("", _measured(earlier), _measured(other)),
        **_by("risk, ", _risk(earlier), _risk(other)),
    }
    return {
        "policy": _lines(earlier.get("policy", {}).get("text", ""), other["policy"]["text"]),
        "sql": _lines(earlier.get("sql", ""), other["sql"]),
        "evidence": {name: list(pair) for name, pair in pairs.items() if pair[0] != pair[1]},
    }


def _by(prefix: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {f"{prefix}{name}": (one.get(name), other.get(name)) for name in {**one, **other}}


def _levels(document: Mapping[str, Any]) -> dict[str, Any]:
    return {item["name"]: ", ".join(map(str, item["levels"])) for item in document.get("attributes", ())}


def _measured(document: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for item in (*document.get("checks", ()), *document.get("history", {}).get("models", ())):
        across = ", across releases" if "compared" in item else ""
        of = f" of {item['attribute']}" if item["attribute"] else ""
        found[f"{item['model']}{of}{across}"] = item["measured"]
    return found


def _risk(document: Mapping[str, Any]) -> dict[str, Any]:
    return dict(document.get("risk", {}).get("after", {}))


def _lines(one: str, other: str) -> list[str]:
    found = difflib.unified_diff(one.splitlines(), other.splitlines(), "shown now", "planned", lineterm="", n=1)
    return list(found)
