"""The ledger against its definition: charges in a plain list, added up anew in fractions for every question."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sqlanon.errors import BudgetExhausted, LedgerError
from sqlanon.ledger import Cost, Ledger, Limits
from sqlanon.ledger.limits import span

EDGES = [
    datetime(2023, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 1), datetime(2024, 2, 28, 12),
    datetime(2024, 2, 29), datetime(2024, 2, 29, 23, 59, 59, 999999), datetime(2024, 3, 1), datetime(2024, 3, 31, 5),
    datetime(2024, 4, 1), datetime(2024, 12, 29, 23), datetime(2024, 12, 30), datetime(2024, 12, 31),
    datetime(2025, 1, 1), datetime(2025, 2, 28, 23, 59), datetime(2025, 3, 1), datetime(2027, 1, 3, 23, 59),
    datetime(2027, 1, 4),
]  # fmt: skip
moments = st.sampled_from(EDGES).map(lambda at: at.replace(tzinfo=UTC))
people = st.sampled_from(["ada", "bob"])
budgets = st.builds(
    Limits,
    epsilon=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    delta=st.sampled_from([1e-6, 3e-6]),
    period=st.sampled_from([None, "day", "week", "month", "year"]),
    total_epsilon=st.sampled_from([None, 0.7, 1.5]),
    total_delta=st.sampled_from([None, 2e-6]),
    accounting=st.sampled_from(["basic", "zcdp"]),
)
costs = st.builds(
    Cost,
    epsilon=st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.1 + 0.2]),
    delta=st.sampled_from([0.0, 5e-7, 1e-6 / 3]),
    rho=st.sampled_from([0.0, 0.0, 0.001, 0.01]),
)
PRECISE = Context(prec=50)


def part(at: datetime, period: str | None) -> Any:
    """The number of a period, by the calendar of the standard library."""
    if period is None:
        return 0
    week = tuple(at.isocalendar())[:2]
    return {"day": at.date(), "week": week, "month": (at.year, at.month), "year": at.year}[period]


@dataclass
class Entry:
    at: datetime
    who: str
    cost: Cost

    @property
    def rho(self) -> Fraction:
        return Fraction(self.cost.rho) or Fraction(self.cost.epsilon) ** 2 / 2


def epsilon_of(rho: Fraction, d: Fraction) -> Fraction:
    exact = PRECISE.divide(Decimal(rho.numerator), Decimal(rho.denominator))
    log = PRECISE.ln(PRECISE.divide(Decimal(d.denominator), Decimal(d.numerator)))
    return Fraction(PRECISE.add(exact, 2 * PRECISE.sqrt(PRECISE.multiply(exact, log))))


class Model(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.ledger = Ledger.create(self.folder / "ledger.db")
        self.charges: list[Entry] = []
        self.grants: list[Entry] = []
        self.answers: dict[str, str] = {}

    def spent(self, charges: list[Entry], limits: Limits, d: Fraction) -> tuple[Fraction, Fraction] | None:
        deltas = sum((Fraction(each.cost.delta) for each in charges), Fraction())
        if limits.accounting == "zcdp":
            return epsilon_of(sum((each.rho for each in charges), Fraction()), d), deltas
        if any(each.rho and not each.cost.epsilon for each in charges):
            return None
        return sum((Fraction(each.cost.epsilon) for each in charges), Fraction()), deltas

    def bounds(self, who: str | None, limits: Limits, at: datetime) -> tuple[Any, Any, Fraction]:
        """What may be spent, of epsilon and of delta, and d."""
        epsilon: Any = limits.total_epsilon if who is None else limits.epsilon
        delta: Any = limits.total_delta if who is None else limits.delta
        if who is not None:
            granted = [g for g in self.grants if g.who == who and part(g.at, limits.period) == part(at, limits.period)]
            epsilon = Fraction(epsilon) + sum(Fraction(each.cost.epsilon) for each in granted)
            delta = Fraction(delta) + sum(Fraction(each.cost.delta) for each in granted)
        d = Fraction(limits.delta if delta is None else delta) / 2
        return epsilon, delta if delta is None or limits.accounting == "basic" else Fraction(delta) / 2, d

    def counted(self, who: str | None, limits: Limits, at: datetime) -> list[Entry]:
        if who is None:
            return list(self.charges)  # the total is never renewed
        now = part(at, limits.period)
        return [each for each in self.charges if each.who == who and part(each.at, limits.period) >= now]

    def verdict(self, entry: Entry, limits: Limits) -> bool | None:
        """Whether a charge fits; None where it cannot be added up."""
        for who in (entry.who, None):
            epsilon, delta, d = self.bounds(who, limits, entry.at)
            sums = self.spent([*self.counted(who, limits, entry.at), entry], limits, d)
            if epsilon is not None and sums is None:
                return None
            pairs = [] if epsilon is None or sums is None else [(sums[0], epsilon)]
            deltas = sum(Fraction(each.cost.delta) for each in [*self.counted(who, limits, entry.at), entry])
            pairs += [] if delta is None else [(deltas, delta)]
            if any(total > Fraction(limit) * (1 + Fraction(1, 10**9)) for total, limit in pairs):
                return False
        return True

    @rule(at=moments, who=people, cost=costs, limits=budgets)
    def reserve(self, at: datetime, who: str, cost: Cost, limits: Limits) -> None:
        entry = Entry(at, who, cost)
        if limits.accounting == "basic" and entry.rho and not cost.epsilon:
            return
        expected = self.verdict(entry, limits)
        try:
            left = self.ledger.reserve(who, cost, limits, shape="s", fingerprint="f", policy="p", at=at)
        except BudgetExhausted:
            assert expected is False
            return
        except LedgerError as refused:
            assert expected is None and "rho alone" in refused.message
            return
        assert expected is True
        self.charges.append(entry)
        assert left.event == len(self.ledger.history())
        self.check(who, limits, at, left)

    @rule(at=moments, who=people, cost=costs)
    def grant(self, at: datetime, who: str, cost: Cost) -> None:
        cost = Cost(cost.epsilon, cost.delta)
        self.ledger.grant(who, cost, by="owner", reason="r", at=at)
        self.grants.append(Entry(at, who, cost))

    @rule(at=moments, who=people, limits=budgets)
    def left(self, at: datetime, who: str, limits: Limits) -> None:
        try:
            found = self.ledger.left(who, limits, at)
        except LedgerError as refused:
            assert "rho alone" in refused.message and limits.accounting == "basic"
            sides = [who] if limits.total_epsilon is None else [who, None]
            counts = [self.counted(each, limits, at) for each in sides]
            assert any(not each.cost.epsilon and each.rho for charges in counts for each in charges)
            return
        self.check(who, limits, at, found)

    def check(self, who: str, limits: Limits, at: datetime, found: Any) -> None:
        rests: list[list[Fraction]] = [[], []]
        for each in (who, None):
            epsilon, delta, d = self.bounds(each, limits, at)
            sums = self.spent(self.counted(each, limits, at), limits, d)
            if each is not None:
                assert sums is not None
                assert found.spent.epsilon == pytest.approx(float(sums[0]), abs=1e-9)
                assert found.spent.delta == pytest.approx(float(sums[1]), rel=1e-9, abs=1e-22)
            if epsilon is not None and sums is not None:
                rests[0].append(max(Fraction(), Fraction(epsilon) - sums[0]))
            if delta is not None:
                deltas = sum((Fraction(one.cost.delta) for one in self.counted(each, limits, at)), Fraction())
                rests[1].append(max(Fraction(), Fraction(delta) - deltas))
        assert found.left.epsilon == pytest.approx(float(min(rests[0])), abs=1e-9)
        assert found.left.delta == pytest.approx(float(min(rests[1])), abs=1e-15)
        if limits.period is None:
            assert found.renewal is None
        else:
            assert part(found.renewal, limits.period) > part(at, limits.period)
            assert part(found.renewal - timedelta(microseconds=1), limits.period) == part(at, limits.period)

    @rule(key=st.sampled_from("kl"), answer=st.text(st.characters(codec="utf-8"), max_size=5))
    def remember(self, key: str, answer: str) -> None:
        self.ledger.remember(key, "ada", answer)
        self.answers.setdefault(key, answer)
        assert self.ledger.cached(key) == self.answers[key]

    @rule()
    def forget(self) -> None:
        assert self.ledger.forget() == len(self.answers)
        self.answers = {}

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.folder / "ledger.db")

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "ledger"):
            assert self.ledger.verify().events == len(self.charges) + len(self.grants)

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            shutil.rmtree(self.folder)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)


@pytest.mark.long
class TestModelLong(Model.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=examples(150), stateful_step_count=50, deadline=None)


@pytest.mark.parametrize("period", ["day", "week", "month", "year"])
def test_periods_follow_each_other_without_a_gap(period: str) -> None:
    at = datetime(1999, 12, 1, 13, tzinfo=UTC)
    for _ in range(6000):
        start, end = span(at, period)
        assert start is not None and end is not None and start <= at < end
        assert part(start, period) == part(at, period) == part(end - timedelta(microseconds=1), period)
        assert part(start - timedelta(microseconds=1), period) < part(at, period) < part(end, period)
        at += timedelta(days=1, hours=1)
