"""The ledger: what is charged, refused, granted and remembered. Damage and crashes are in test_ledger_damage.py."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from sqlanon.errors import BudgetExhausted, LedgerError, PolicyError
from sqlanon.ledger import Cost, Head, Ledger, Left, Limits

NOON = datetime(2026, 7, 15, 12, tzinfo=UTC)
MONTHLY = Limits(epsilon=1.0, delta=1e-6, period="month")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "ledger.db") as made:
        yield made


def spend(ledger: Ledger, epsilon: float, limits: Limits = MONTHLY, who: str = "ada", **more: Any) -> Left:
    at = more.pop("at", NOON)
    cost = Cost(epsilon=epsilon, **more)
    return ledger.reserve(who, cost, limits, shape="count by 1 key", fingerprint="f1", policy="p1", at=at)


@pytest.mark.parametrize("cost, times", [(0.1, 10), (1 / 3, 3), (0.7 / 7, 10), (1e-3, 1000), (1.0, 1)])
def test_charges_fill_a_limit_exactly(ledger: Ledger, cost: float, times: int) -> None:
    ledger._connection.execute("PRAGMA synchronous = OFF")  # type: ignore[union-attr]
    for _ in range(times):
        left = spend(ledger, cost)
    assert left.left.epsilon == 0 and left.spent.epsilon == pytest.approx(1.0, abs=1e-8)
    for _ in range(3):
        with pytest.raises(BudgetExhausted):
            spend(ledger, cost)
    assert len(ledger.history()) == times


def test_a_refusal_says_what_is_left_and_what_to_do(ledger: Ledger) -> None:
    spend(ledger, 0.8)
    with pytest.raises(BudgetExhausted) as refused:
        spend(ledger, 0.5)
    assert refused.value.sqlstate == "53400"
    assert refused.value.message == "analyst 'ada' has epsilon 0.20 left, the statement needs 0.50"
    assert "lower epsilon" in refused.value.hint and "wait until 2026-08-01" in refused.value.hint
    with pytest.raises(BudgetExhausted, match="the limit is 1") as refused:  # waiting would not help
        spend(ledger, 1.5)
    assert "wait" not in refused.value.hint
    with pytest.raises(BudgetExhausted, match="not renewed"):
        spend(ledger, 0.5, Limits(1.0, 1e-6))
    with pytest.raises(BudgetExhausted, match=r"has delta 0\.000001 left, the statement needs 0\.000002"):
        spend(ledger, 0.1, delta=2e-6)
    with pytest.raises(BudgetExhausted, match=r"all analysts together have epsilon 0\.10 left.*needs 0\.20"):
        spend(ledger, 0.2, Limits(1.0, 1e-6, "month", total_epsilon=0.9), who="bob")
    assert [event.epsilon for event in ledger.history()] == [0.8]


def test_principals_have_their_own_budgets_and_any_name(ledger: Ledger) -> None:
    names = ["ada", "Ada", "", "o'brien", "名前", "a\0b", "a\0c", "x" * 5000, "%", "line\nbreak", "é", "e\u0301"]
    for name in names:
        spend(ledger, 1.0, who=name)
    for name in names:
        with pytest.raises(BudgetExhausted):
            spend(ledger, 0.1, who=name)
        assert [event.principal for event in ledger.history(name)] == [name]
    assert ledger.verify().events == len(names)


def test_a_period_renews_and_a_clock_that_went_back_does_not(ledger: Ledger) -> None:
    spend(ledger, 0.6, at=datetime(2026, 7, 31, 23, 59, 59, 999999, tzinfo=UTC))
    spend(ledger, 0.9, at=datetime(2026, 8, 1, tzinfo=UTC))
    assert ledger.left("ada", MONTHLY, datetime(2026, 8, 31, tzinfo=UTC)).spent.epsilon == 0.9
    # Back in July the charge of August counts as well.
    back = ledger.left("ada", MONTHLY, NOON)
    assert back.spent.epsilon == 1.5 and back.left.epsilon == 0 and back.renewal == datetime(2026, 8, 1, tzinfo=UTC)
    with pytest.raises(BudgetExhausted):
        spend(ledger, 0.1)


def test_what_was_spent_in_all_periods_together(ledger: Ledger) -> None:
    assert ledger.spent_ever("ada", MONTHLY) == Cost()
    for month, who in ((5, "ada"), (6, "ada"), (6, "bob")):
        spend(ledger, 0.25, who=who, at=datetime(2026, month, 3, tzinfo=UTC))
    ledger.grant("ada", Cost(3.0), by="owner", reason="more", at=NOON)  # is not spent
    assert ledger.left("ada", MONTHLY, NOON).spent.epsilon == 0
    assert ledger.spent_ever("ada", MONTHLY).epsilon == 0.5
    assert ledger.spent_ever("bob", MONTHLY).epsilon == 0.25
    assert ledger.spent_ever(None, MONTHLY).epsilon == 0.75


def test_periods_are_of_utc(ledger: Ledger) -> None:
    east = timezone(timedelta(hours=14))
    spend(ledger, 1.0, at=datetime(2026, 8, 1, 13, tzinfo=east))  # still July in UTC
    assert ledger.history()[0].at == "2026-07-31T23:00:00.000000+00:00"
    with pytest.raises(BudgetExhausted):
        spend(ledger, 0.1)
    spend(ledger, 1.0, at=datetime(2026, 8, 1, 14, tzinfo=east))


def test_now_is_the_time_if_none_is_given(ledger: Ledger) -> None:
    before = datetime.now(UTC)
    ledger.reserve("ada", Cost(0.1), MONTHLY, shape="s", fingerprint="f", policy="p")
    assert before <= datetime.fromisoformat(ledger.history()[0].at) <= datetime.now(UTC)
    assert ledger.left("ada", Limits(1, 0, "year")).spent.epsilon == 0.1


def test_a_grant_raises_the_limit_of_one_in_its_period(ledger: Ledger) -> None:
    ledger.grant("ada", Cost(0.5, 1e-6), by="owner", reason="audit", at=NOON)
    assert ledger.left("ada", MONTHLY, NOON).left == Cost(1.5, 2e-6)
    assert ledger.left("bob", MONTHLY, NOON).left == Cost(1.0, 1e-6)
    for month in (6, 8):  # a grant of the future does not count yet, and one of the past no longer
        assert ledger.left("ada", MONTHLY, datetime(2026, month, 15, tzinfo=UTC)).left == Cost(1.0, 1e-6)
    spend(ledger, 1.5, delta=2e-6)
    assert ledger.left("ada", Limits(2, 1), datetime(2030, 1, 1, tzinfo=UTC)).left.epsilon == 1.0
    granted = ledger.history()[0]
    assert (granted.kind, granted.by, granted.reason, granted.epsilon) == ("grant", "owner", "audit", 0.5)
    capped = Limits(1.0, 1e-6, "month", total_epsilon=1.5)
    with pytest.raises(BudgetExhausted, match="all analysts"):  # which a grant does not lift
        spend(ledger, 0.1, capped, who="bob")
    with pytest.raises(BudgetExhausted, match="not renewed"):  # nor does the next month
        ledger.reserve(
            "bob", Cost(0.1), capped, shape="s", fingerprint="f", policy="p", at=datetime(2031, 1, 1, tzinfo=UTC)
        )
    with pytest.raises(PolicyError, match="rho"):
        ledger.grant("ada", Cost(rho=1), by="owner", reason="?")


def test_zcdp_adds_rho_and_keeps_within_epsilon_and_delta(ledger: Ledger) -> None:
    limits = Limits(epsilon=3.0, delta=1e-6, accounting="zcdp")
    log = math.log(2e6)  # d is half of delta
    left = spend(ledger, 0.0, limits, rho=0.1, delta=3e-7)
    assert left.spent.epsilon == pytest.approx(0.1 + 2 * math.sqrt(0.1 * log), rel=1e-12)
    assert left.left.epsilon == pytest.approx(3.0 - left.spent.epsilon, rel=1e-9)
    assert left.left.delta == pytest.approx(2e-7)
    with pytest.raises(BudgetExhausted, match="delta"):  # the other half is d's
        spend(ledger, 0.0, limits, rho=0.001, delta=2.1e-7)
    most = (math.sqrt(log + 3.0) - math.sqrt(log)) ** 2
    assert left.left.rho == pytest.approx(most - 0.1, rel=1e-9)
    with pytest.raises(BudgetExhausted, match="epsilon"):
        spend(ledger, 0.0, limits, rho=(most - 0.1) * 1.0001)
    assert spend(ledger, 0.0, limits, rho=most - 0.1).left.epsilon == pytest.approx(0, abs=1e-8)


def test_a_cost_is_never_free_under_either_accounting(ledger: Ledger) -> None:
    basic, zcdp = Limits(1.0, 1e-6), Limits(100.0, 1e-6, accounting="zcdp")
    assert spend(ledger, 0.5, zcdp).spent.rho == 0.125  # pure epsilon has the rho epsilon^2 / 2
    assert ledger.left("ada", basic).spent.epsilon == 0.5
    with pytest.raises(PolicyError, match="rho alone"):
        spend(ledger, 0.0, basic, rho=0.1)
    spend(ledger, 0.0, zcdp, rho=0.1)
    with pytest.raises(LedgerError, match="zcdp"):  # the accounting was changed under way
        spend(ledger, 0.1, basic)
    assert spend(ledger, 0.1, basic, who="bob").spent.epsilon == 0.1


def test_very_large_and_very_small_amounts(ledger: Ledger) -> None:
    assert spend(ledger, 1e9, Limits(1e12, 1)).spent.epsilon == 1e9
    assert spend(ledger, 1e-9, Limits(1e12, 1), delta=1e-30).spent.epsilon == 1e9 + 1e-9
    assert ledger.left("ada", Limits(1e12, 1)).spent.delta == 1e-24  # rounded up, never away


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-9, True, 1e300])
@pytest.mark.parametrize("field", ["epsilon", "delta", "rho"])
def test_costs_that_are_no_amounts(ledger: Ledger, field: str, bad: float) -> None:
    with pytest.raises(PolicyError):
        ledger.reserve("ada", Cost(**{field: bad}), MONTHLY, shape="s", fingerprint="f", policy="p")
    with pytest.raises(PolicyError):
        ledger.grant("ada", Cost(**{field: bad}), by="owner", reason="r")
    assert ledger.history() == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("field", ["epsilon", "delta", "total_epsilon", "total_delta"])
def test_limits_that_are_no_amounts(field: str, bad: float) -> None:
    with pytest.raises(PolicyError):
        Limits(**{"epsilon": 1.0, "delta": 1e-6, field: bad})


def test_limits_that_mean_nothing() -> None:
    for wrong in ({"period": "fortnight"}, {"accounting": "renyi"}, {"delta": 0, "accounting": "zcdp"}, {"delta": 1.1}):
        with pytest.raises(PolicyError):
            Limits(**{"epsilon": 1.0, "delta": 1e-6, **wrong})  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="above 0"):
        Limits(1, 1e-6, total_delta=0, accounting="zcdp")


def test_values_that_would_break_the_chain_are_refused(ledger: Ledger) -> None:
    for wrong in (5, b"x", True, 1.5):
        with pytest.raises((PolicyError, TypeError)):
            ledger.reserve(wrong, Cost(0.1), MONTHLY, shape="s", fingerprint="f", policy="p")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="Unicode"):
        spend(ledger, 0.1, who="\ud800")
    with pytest.raises(PolicyError, match="time zone"):
        spend(ledger, 0.1, at=datetime(2026, 7, 15))
    with pytest.raises(PolicyError, match="year"):
        spend(ledger, 0.1, at=datetime(9999, 12, 31, tzinfo=UTC))
    assert ledger.verify().events == 0 and spend(ledger, 0.1).event == 1


def test_a_charge_is_settled_once_and_never_given_back(ledger: Ledger) -> None:
    first, second = spend(ledger, 0.1), spend(ledger, 0.2)
    ledger.settle(first, "failed")
    ledger.settle(second.event, "answered")
    assert [(e.kind, e.settles, e.principal) for e in ledger.history()[2:]] == [
        ("failed", 1, "ada"), ("answered", 2, "ada"),
    ]  # fmt: skip
    assert ledger.left("ada", MONTHLY, NOON).spent.epsilon == pytest.approx(0.3)
    for place, outcome in [(1, "answered"), (3, "answered"), (99, "failed"), (2, "refunded")]:
        with pytest.raises(PolicyError):
            ledger.settle(place, outcome)
    assert not [name for name in dir(Ledger) if "refund" in name or "delete" in name]


def test_history_is_in_order_and_its_limit_keeps_the_latest(ledger: Ledger) -> None:
    for who in ("ada", "bob", "ada"):
        spend(ledger, 0.1, who=who)
    assert [event.id for event in ledger.history()] == [1, 2, 3]
    assert [event.id for event in ledger.history("ada")] == [1, 3]
    assert [event.id for event in ledger.history(limit=2)] == [2, 3]
    assert ledger.history(limit=0) == []
    last = ledger.history()[-1]
    assert (last.shape, last.fingerprint, last.policy, last.rho) == ("count by 1 key", "f1", "p1", 0.005)


def test_an_export_can_be_verified_without_the_ledger(ledger: Ledger) -> None:
    spend(ledger, 1 / 3)
    ledger.grant("名前", Cost(1), by="owner", reason='"quoted"\n', at=NOON)
    ledger.settle(1, "answered", at=NOON)
    lines = [json.loads(json.dumps(line)) for line in ledger.export()]
    previous = lines[0]["previous"]
    for line in lines:
        assert line.pop("previous") == previous
        sealed = line.pop("hash")
        text = previous + json.dumps(list(line.values()), separators=(",", ":"))
        previous = hashlib.sha256(text.encode()).hexdigest()
        assert previous == sealed
    assert ledger.verify() == Head(3, previous) and lines[0]["epsilon"] == "0.333333333334"


def test_an_export_of_many_events_is_complete(ledger: Ledger) -> None:
    ledger._connection.execute("PRAGMA synchronous = OFF")  # type: ignore[union-attr]
    for _ in range(1001):
        spend(ledger, 0.0001)
    assert [line["id"] for line in ledger.export()] == list(range(1, 1002))


def test_answers_are_remembered_the_first_one_stays_and_damage_forgets(ledger: Ledger) -> None:
    assert ledger.cached("k") is None
    ledger.remember("k", "ada", '{"rows": []}')
    ledger.remember("k", "bob", '{"rows": [1]}')
    ledger.remember("l", "ada", "ä\0")
    assert ledger.cached("k") == '{"rows": []}' and ledger.cached("l") == "ä\0"
    with sqlite3.connect(ledger.path) as raw:
        raw.execute("""UPDATE answers SET answer = '{"rows": [2]}' WHERE key = 'k'""")
    raw.close()
    assert ledger.cached("k") is None
    assert ledger.forget(datetime.now(UTC) - timedelta(hours=1)) == 0
    assert ledger.forget() == 2 and ledger.cached("l") is None
    assert ledger.history() == []


def test_a_charge_is_settled_together_with_what_it_paid_for_or_not_at_all(ledger: Ledger) -> None:
    first = spend(ledger, 0.1)
    ledger.settle(first, "answered", answers={"k": "1", "l": "2"})
    assert ledger.cached("k") == "1" and ledger.cached("l") == "2"
    with pytest.raises(PolicyError, match="already settled"):
        ledger.settle(first, "answered", answers={"m": "3"})
    with pytest.raises(PolicyError, match="not Unicode"):
        ledger.settle(spend(ledger, 0.1), "failed", answers={"n": "4", "o": "\ud800"})
    assert ledger.cached("m") is None and ledger.cached("n") is None
    assert [event.kind for event in ledger.history()] == ["charge", "answered", "charge"]


def test_create_makes_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    before = os.umask(0)
    try:
        with Ledger.create(path) as ledger:
            spend(ledger, 0.1)
            modes = {stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o600}
    with pytest.raises(LedgerError, match="already there"):
        Ledger.create(path)
    with pytest.raises(LedgerError, match="no folder"):
        Ledger.create(tmp_path / "none" / "new.db")
    with Ledger.open(path) as ledger:
        assert ledger.left("ada", MONTHLY, NOON).spent.epsilon == 0.1


def test_threads_share_one_ledger(ledger: Ledger) -> None:
    won: list[Left] = []
    start = threading.Barrier(12)

    def ask() -> None:
        start.wait()
        with suppress(BudgetExhausted):
            won.append(spend(ledger, 0.2))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(left.event for left in won) == [1, 2, 3, 4, 5] and ledger.verify().events == 5


def test_a_closed_ledger_answers_nothing(ledger: Ledger) -> None:
    ledger.close()
    ledger.close()
    for call in (lambda: spend(ledger, 0.1), lambda: ledger.left("ada", MONTHLY), lambda: ledger.cached("k")):
        with pytest.raises(LedgerError, match="closed"):
            call()


def test_events_are_never_changed_or_removed(ledger: Ledger) -> None:
    spend(ledger, 0.5)
    raw = sqlite3.connect(ledger.path)
    for statement in (
        "UPDATE events SET epsilon = '0'",
        "DELETE FROM events",
        "DELETE FROM head",
        "UPDATE head SET events = 0",
        "INSERT INTO events (id, at, kind, principal, epsilon, delta, rho, hash) "
        "SELECT 7, at, kind, principal, '0', delta, rho, hash FROM events",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            raw.execute(statement)
    raw.close()
    assert ledger.left("ada", MONTHLY, NOON).spent.epsilon == 0.5
