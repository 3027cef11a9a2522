"""Where the budgets of a gateway stand: a function of its policy and its ledger, without the data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlanon.ledger import Ledger
from sqlanon.ledger.limits import Left, Limits, format_time, span
from sqlanon.mechanisms import Cost
from sqlanon.policy.gateway import Gateway


@dataclass(frozen=True)
class Standing:
    """What a principal may spend in this period, with grants, and how much of it is spent and left."""

    principal: str
    limit: Cost
    granted: Cost
    left: Left


def limits_of(policy: Gateway, principal: str) -> Limits:
    """What the policy lets a principal, and all of them together, spend."""
    own, budget = policy.principals[principal], policy.budget
    return Limits(
        epsilon=own.epsilon if own.epsilon is not None else budget.principal.epsilon,
        delta=own.delta if own.delta is not None else budget.principal.delta,
        period=budget.principal.period,
        total_epsilon=budget.total.epsilon if budget.total else None,
        total_delta=budget.total.delta if budget.total else None,
        accounting=policy.accounting,
    )


def standings(policy: Gateway, ledger: Ledger) -> list[Standing]:
    """The budget of every principal of the policy, now."""
    now = datetime.now(UTC)
    return [_standing(policy, ledger, principal, now) for principal in policy.principals]


def _standing(policy: Gateway, ledger: Ledger, principal: str, now: datetime) -> Standing:
    limits = limits_of(policy, principal)
    start, end = span(now, limits.period)
    granted = Cost()
    for event in ledger.history(principal):
        if event.kind == "grant" and (
            start is None or end is None or format_time(start) <= event.at < format_time(end)
        ):
            granted += Cost(event.epsilon, event.delta)
    limit = Cost(limits.epsilon, limits.delta) + granted
    return Standing(principal, limit, granted, ledger.left(principal, limits, now))
