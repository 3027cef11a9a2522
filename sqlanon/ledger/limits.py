"""Limits: how much privacy may be spent in a period, and how spending is added up.

basic   epsilons and deltas are added. What was answered is (sum of epsilons, sum of deltas)-private.
zcdp    rhos are added. What was answered is (rho + 2 sqrt(rho ln(1/d)), d + sum of deltas)-private, for every d
        (Bun and Steinke 2016, Proposition 1.3 and Section 8); d is half of the delta limit, and the other half
        bounds the sum of the deltas, which key selections cost. All together keeps within (epsilon, delta).

Both are filters: the next cost may be chosen after the answers before it were seen (Rogers et al. 2016; Whitehouse
et al. 2023). The limit over all principals is kept in the same way, with its own delta; where it has none, d is that
of a principal's limit, and the sum of the deltas of all is not bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

from sqlanon.errors import BudgetExhausted, LedgerError, PolicyError
from sqlanon.ledger.amounts import EXACT, ZERO, Sums, amount, fits, format_amounts
from sqlanon.mechanisms import Cost

PERIODS = ("day", "week", "month", "year")
WHOLE = Decimal(1)


@dataclass(frozen=True)
class Limits:
    """What a principal may spend in a calendar period of UTC, or for ever; the totals, of all of them, are for ever."""

    epsilon: float
    delta: float
    period: Literal["day", "week", "month", "year"] | None = None
    total_epsilon: float | None = None
    total_delta: float | None = None
    accounting: Literal["basic", "zcdp"] = "basic"

    def __post_init__(self) -> None:
        amount(self.epsilon, "the limit of epsilon")
        amount(self.delta, "the limit of delta", most=WHOLE)
        if self.total_epsilon is not None:
            amount(self.total_epsilon, "the total limit of epsilon")
        if self.total_delta is not None:
            amount(self.total_delta, "the total limit of delta", most=WHOLE)
        if self.period is not None and self.period not in PERIODS:
            raise PolicyError(f"unknown period '{self.period}'", hint=f"it is one of {', '.join(PERIODS)}")
        if self.accounting not in ("basic", "zcdp"):
            raise PolicyError(f"unknown accounting '{self.accounting}'", hint="it is basic or zcdp")
        if self.accounting == "zcdp" and (self.delta == 0 or self.total_delta == 0):
            raise PolicyError("zcdp needs a delta above 0", hint="give a delta, or account with basic composition")

    def own(self, granted: Sums) -> BudgetBounds:
        """The budget of one principal, with what was granted to it."""
        epsilon = EXACT.add(amount(self.epsilon, "epsilon"), granted.epsilon)
        delta = EXACT.add(amount(self.delta, "delta"), granted.delta)
        return _budget(self.accounting, epsilon, delta, delta)

    def total(self) -> BudgetBounds:
        """The budget of all together; a grant does not raise it."""
        epsilon = None if self.total_epsilon is None else amount(self.total_epsilon, "epsilon")
        delta = None if self.total_delta is None else amount(self.total_delta, "delta")
        return _budget(self.accounting, epsilon, delta, amount(self.delta, "delta") if delta is None else delta)


@dataclass(frozen=True)
class BudgetBounds:
    """Bounds on sums; None is no bound. `d` is the delta of the conversion from rho, None in basic composition."""

    epsilon: Decimal | None
    delta: Decimal | None
    d: float | None

    def spent(self, sums: Sums) -> Decimal:
        """The epsilon that charges amount to; of no matter where it is not bounded."""
        if self.epsilon is None:
            return ZERO
        if self.d is None:
            if sums.in_rho:
                raise LedgerError(
                    "there are charges in rho alone, which basic composition cannot add",
                    hint="Keep the accounting at zcdp until the period in which they were made is over.",
                )
            return sums.epsilon
        return Decimal(epsilon_of(float(sums.rho), self.d))

    def left(self, sums: Sums) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
        """Epsilon, delta and rho that are left."""
        epsilon = None if self.epsilon is None else max(ZERO, EXACT.subtract(self.epsilon, self.spent(sums)))
        delta = None if self.delta is None else max(ZERO, EXACT.subtract(self.delta, sums.delta))
        rho = None
        if self.d is not None and self.epsilon is not None:
            rho = max(ZERO, EXACT.subtract(Decimal(rho_of(float(self.epsilon), self.d)), sums.rho))
        return epsilon, delta, rho

    def refusal(self, who: str, before: Sums, cost: Sums, renewal: datetime | None) -> BudgetExhausted | None:
        """Why a cost does not fit, or None."""
        after = before.plus(cost)
        spent = self.spent(before), before.delta
        needs = EXACT.subtract(self.spent(after), spent[0]), cost.delta
        whole = self.spent(cost), cost.delta
        sums = self.spent(after), after.delta
        for at, name in enumerate(("epsilon", "delta")):
            limit = (self.epsilon, self.delta)[at]
            if limit is None or fits(sums[at], limit):
                continue
            has, asks = format_amounts(max(ZERO, EXACT.subtract(limit, spent[at])), needs[at])
            lower = f"Ask with a lower {name} or for a coarser GROUP BY"
            if not fits(whole[at], limit):
                hint = f"{lower}: the limit is {limit:f}."
            elif renewal is None:
                hint = f"{lower}, or ask the owner of the data: this budget is not renewed."
            else:
                hint = f"{lower}, or wait until {renewal:%Y-%m-%d}."
            verb = "have" if who.startswith("all ") else "has"
            return BudgetExhausted(f"{who} {verb} {name} {has} left, the statement needs {asks}", hint=hint)
        return None


def _budget(accounting: str, epsilon: Decimal | None, delta: Decimal | None, whole: Decimal) -> BudgetBounds:
    if accounting == "basic":
        return BudgetBounds(epsilon, delta, None)
    half = Decimal("0.5")
    # Grants may lift a delta above 1, where it no longer says anything; d stays below 1, or its logarithm turns.
    return BudgetBounds(
        epsilon, None if delta is None else EXACT.multiply(delta, half), float(min(whole, WHOLE) * half)
    )


def epsilon_of(rho: float, d: float) -> float:
    """The epsilon, at delta d, of rho-zero-concentrated privacy.

    >>> epsilon_of(0.0, 0.5e-6), round(epsilon_of(0.1, 0.5e-6), 6)
    (0.0, 2.509038)
    """
    return rho + 2 * math.sqrt(rho * math.log(1 / d))


def rho_of(epsilon: float, d: float) -> float:
    """The largest rho that amounts to no more than epsilon at delta d.

    >>> round(rho_of(epsilon_of(0.1, 0.5e-6), 0.5e-6), 12)
    0.1
    """
    # sqrt(L + e) - sqrt(L), written so that it does not cancel for a small epsilon.
    log = math.log(1 / d)
    root: float = epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))
    return root * root


@dataclass(frozen=True)
class Left:
    """What a principal has spent and may still spend: the less of its own and the total limit. `event`: the charge.

    Under zcdp `spent.epsilon` is what the spent rho amounts to, and `left.delta` is of the half for key selections.
    """

    spent: Cost
    left: Cost
    renewal: datetime | None
    event: int = 0


def span(at: datetime, period: str | None) -> tuple[datetime | None, datetime | None]:
    """The calendar period of UTC in which a time lies: its first moment, and that of the next.

    >>> start, end = span(datetime(2024, 2, 29, 23, tzinfo=UTC), "month")
    >>> f"{start:%Y-%m-%d} {end:%Y-%m-%d}"
    '2024-02-01 2024-03-01'
    """
    if period is None:
        return None, None
    start = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return start, start + timedelta(days=1)
    if period == "week":
        start -= timedelta(days=start.weekday())
        return start, start + timedelta(days=7)
    if period == "month":
        start = start.replace(day=1)
        return start, (start + timedelta(days=31)).replace(day=1)
    start = start.replace(month=1, day=1)
    return start, start.replace(year=start.year + 1)


def moment(at: datetime | None) -> datetime:
    """A time in UTC, now if none is given."""
    if at is None:
        return datetime.now(UTC)
    if at.tzinfo is None:
        raise PolicyError("a time needs a time zone", hint="use datetime.now(UTC)")
    if not 1900 <= at.year <= 9000:
        raise PolicyError(f"the year {at.year} is out of range", hint="check the clock")
    return at.astimezone(UTC)


def format_time(at: datetime) -> str:
    """A time as the ledger writes it, in a form that sorts.

    >>> format_time(datetime(2026, 1, 2, tzinfo=UTC))
    '2026-01-02T00:00:00.000000+00:00'
    """
    return at.isoformat(timespec="microseconds")
