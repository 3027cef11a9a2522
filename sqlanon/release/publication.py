"""What publishing gives back, whatever way it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import Evidence
from sqlanon.lattice.solution import Way
from sqlanon.plan import Plan
from sqlanon.policy import Policy

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Published:
    """What was done, or with `dry_run` would be: the plan, and the evidence as a document for people and programs.

    `ways` are the algorithms that were tried, and `advice` is what the data owner may want to change. Neither is in the
    document: what was not published tells of the source, and is for the owner alone."""

    plan: Plan
    document: Mapping[str, Any]
    evidence: Evidence | None = None
    ways: tuple[Way, ...] = ()
    advice: tuple[str, ...] = ()


def tell(progress: Progress | None, what: str, done: int, every: int) -> None:
    if progress:
        progress(what, done, every)


def require_plan(plan: Plan, plan_hash: str | None) -> None:
    """Refuse to carry out another plan than the one that was asked for."""
    if plan_hash is not None and not plan.hash.startswith(plan_hash.lower()):
        raise PolicyError(
            f"the plan is no longer the same: it is {plan.hash[:16]} now",
            hint="the policy or the data changed; look at the new one with 'sqlanon plan'",
        )


def require_roles(policy: Policy, available: list[str]) -> None:
    """A column that nobody thought of must not leave with the others."""
    undeclared = [name for name in available if name not in policy.columns and name != policy.person]
    if undeclared:
        raise PolicyError(
            f"columns without a role: {', '.join(undeclared[:20])}",
            hint="give each column of the source a role; 'identifier' leaves it out, 'insensitive' keeps it as it is",
        )
