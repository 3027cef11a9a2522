"""What the pages show of budgets: the sums of the ledger, and a line drawn on from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlanon.gateway.price.budgets import Standing, limits_of, standings
from sqlanon.ledger import Event, Ledger
from sqlanon.ledger.limits import format_time, span
from sqlanon.mechanisms import Cost
from sqlanon.policy.gateway import Gateway

MOST_EVENTS = 2_000


@dataclass(frozen=True)
class Account:
    """The budget of a principal: where it stands, how it came there, and when it would be spent."""

    standing: Standing
    ever: Cost  # spent in all periods together
    events: tuple[Event, ...]  # of this period, the oldest first
    start: datetime | None
    runs_out: datetime | None

    @property
    def principal(self) -> str:
        return self.standing.principal

    @property
    def spent_share(self) -> float:
        limit = self.standing.limit.epsilon
        return min(self.standing.left.spent.epsilon / limit, 1.0) if limit else 1.0

    @property
    def grants(self) -> list[Event]:
        return [event for event in self.events if event.kind == "grant"]


def accounts(gateway: Gateway, principals: Sequence[str]) -> list[Account]:
    """Reads the ledger alone."""
    now = datetime.now(UTC)
    with Ledger.open(gateway.located_ledger) as ledger:
        found = {each.principal: each for each in standings(gateway, ledger)}
        return [_account(gateway, ledger, found[name], now) for name in principals]


def _account(gateway: Gateway, ledger: Ledger, standing: Standing, now: datetime) -> Account:
    limits = limits_of(gateway, standing.principal)
    start, _ = span(now, limits.period)
    first = format_time(start) if start is not None else ""
    events = tuple(event for event in ledger.history(standing.principal, MOST_EVENTS) if event.at >= first)
    began = start or _time_of(events)
    return Account(
        standing, ledger.spent_ever(standing.principal, limits), events, start,
        forecast(began, now, standing.left.spent.epsilon, standing.left.left.epsilon),
    )  # fmt: skip


def _time_of(events: Sequence[Event]) -> datetime | None:
    return datetime.fromisoformat(events[0].at).astimezone(UTC) if events else None


def forecast(start: datetime | None, now: datetime, spent: float, left: float) -> datetime | None:
    """When a budget is spent if it is spent on as fast as since `start`; None if it is not spent at all.

    >>> start = datetime(2026, 3, 1, tzinfo=UTC)
    >>> forecast(start, start + timedelta(days=10), 2.0, 3.0) == start + timedelta(days=25)
    True
    >>> forecast(start, start + timedelta(days=10), 0.0, 3.0) is None
    True
    """
    if start is None or spent <= 0 or now <= start:
        return None
    try:
        return now + (now - start) * (left / spent)
    except OverflowError:
        return None


def end_of(account: Account, now: datetime) -> datetime:
    """Where the drawing of an account ends: its renewal, or as long again as it lasts."""
    renewal = account.standing.left.renewal
    if renewal is not None:
        return renewal
    began = account.start or _time_of(account.events) or now
    return now + max(now - began, timedelta(days=1))
