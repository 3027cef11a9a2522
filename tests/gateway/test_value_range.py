"""Bounds that the policy does not give: found with noise, paid for, and never a bound that was read from the data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Database, examples
from gateway_world import COLUMNS, EXACT, World, people, policy, world
from hypothesis import given, settings
from hypothesis import strategies as st
from test_noise_audit import STATEMENTS, audited, said, schema  # noqa: F401 - a fixture
from test_noise_audit import policy as audited_policy

from sqlanon.gateway.bind.bounding import LEAST_POWER, MOST_POWER, PRECISION
from sqlanon.gateway.price import value_range
from sqlanon.gateway.price.value_range import Histogram, RangedSum, ValueRange, most_units, ranges
from sqlanon.mechanisms import Cost, Mechanism, laplace
from sqlanon.policy.gateway import Gateway

QUIET = RangedSum(*(Mechanism(list, Cost(), 1.0) for _ in range(2)))
numbers = st.one_of(
    st.integers(-(2**53), 2**53).map(float), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, -1.0, 8.0, 2.0**53, 1e-9])
)


def histogram(values: list[float]) -> Histogram:
    """As the statement counts, written again in Python."""
    found: dict[int, tuple[int, int]] = {}
    for value in values:
        above = math.ceil(math.log2(abs(value))) if value else LEAST_POWER
        power = min(max(above, LEAST_POWER), MOST_POWER)
        bin_ = (power - LEAST_POWER + 1) * (-1 if value < 0 else 1)
        size = min(round(abs(value) * 2.0 ** (PRECISION - power)), 2**PRECISION)
        rows, total = found.get(bin_, (0, 0))
        found[bin_] = rows + 1, total + size
    return found


@settings(max_examples=examples(200), deadline=None)
@given(values=st.lists(numbers, max_size=20), one=st.sampled_from(list(ranges())), centred=st.booleans())
def test_the_sum_is_that_of_values_within_the_range(values: list[float], one: ValueRange, centred: bool) -> None:
    held = [min(max(value, one.low), one.high) - (one.middle if centred else 0.0) for value in values]
    found = one.total(histogram(values), centred=centred) * one.unit(centred=centred)
    # A bin keeps 2**-PRECISION of its power; the sum is rounded to a unit.
    assert found == pytest.approx(math.fsum(held), abs=(len(values) + 1) * one.unit(centred=centred) * 2, rel=1e-9)


@settings(max_examples=examples(60), deadline=None)
@given(
    rest=st.lists(st.tuples(st.integers(0, 2), numbers), max_size=8),
    own=st.lists(st.tuples(st.integers(0, 2), numbers), max_size=4),
    centred=st.booleans(),
)
def test_a_person_moves_no_range_further(rest: Any, own: Any, centred: bool) -> None:
    """Whatever range is found, in all groups together."""

    def by_group(rows: Any) -> list[Histogram]:
        return [histogram([value for group, value in rows if group == each]) for each in range(3)]

    one, other = by_group([*rest, *own]), by_group(rest)
    for found in ranges():
        pairs = zip(one, other, strict=True)
        moved = sum(abs(found.total(a, centred=centred) - found.total(b, centred=centred)) for a, b in pairs)
        assert moved <= most_units(len(own))


def test_the_range_holds_what_many_have() -> None:
    many = histogram([100.0] * 50 + [3.0] * 50)
    assert QUIET.find([many]) == ValueRange(7, False, True)
    assert QUIET.find([many, histogram([-20.0] * 90)]) == ValueRange(7, True, True)
    # One person far away opens no range: noise alone would do so too.
    assert QUIET.find([many, histogram([1e15] * 4)]) == ValueRange(7, False, True)
    assert QUIET.find([]).power in range(LEAST_POWER, MOST_POWER + 1)


def test_noise_alone_seldom_opens_a_range() -> None:
    mechanism = RangedSum(laplace(4, 0.25), laplace(4, 1.0))
    held = histogram([100.0] * 5000)
    assert sum(mechanism.find([held]) != ValueRange(7, False, True) for _ in range(60)) <= 12


LOOSE = policy(rows=500, groups=500, minimum_group=1)


def test_without_noise_it_is_the_sum_within_the_range(database: Database, tmp_path: Path) -> None:
    rows = people(60)
    for each in rows["orders"]:
        each["order_id"] = each["user_id"] * 10 + 7
    here = world(tmp_path, rows, given=LOOSE, mechanisms=EXACT, engine=database.engine)
    ((total, mean, opposite),) = here.rows(
        "SELECT SUM(order_id), AVG(order_id), SUM(-order_id) FILTER (WHERE order_id > 100) FROM orders"
    )
    ((wanted, average, filtered),) = here.raw(
        "SELECT SUM(order_id), AVG(order_id), SUM(-order_id) FILTER (WHERE order_id > 100) FROM orders"
    )
    assert here.gate.policy.tables["orders"].columns.keys() == {"amount"}
    # The noise of these mechanisms is nothing, and their threshold is not: a few rows may lie beyond the range.
    assert total == pytest.approx(float(wanted), rel=0.25)
    assert mean == pytest.approx(float(average), rel=0.25)
    assert opposite == pytest.approx(float(filtered), rel=0.25)


def test_values_that_are_no_numbers(database: Database, tmp_path: Path) -> None:
    columns = COLUMNS | {"orders": COLUMNS["orders"] | {"order_id": "DOUBLE PRECISION"}}
    rows = people(30)
    odd = [float("nan"), float("inf"), float("-inf"), None, 0.0, -0.0, 1e-300, 1e300]
    rows["orders"] = [
        {"order_id": odd[place % len(odd)], "user_id": place % 30 + 1, "amount": 1} for place in range(120)
    ]
    rows["items"] = []
    given = policy(tables={name: table for name, table in _tables().items() if name != "items"})
    here = world(tmp_path, rows, given=given, engine=database.engine, columns=columns)
    for sql in ("SELECT SUM(order_id), AVG(order_id) FROM orders", "SELECT AVG(order_id) FROM orders WHERE amount = 2"):
        ((*found,),) = here.rows(sql)
        assert all(math.isfinite(value) for value in found)


def _tables() -> dict[str, Any]:
    return {name: table.model_dump(exclude_none=True) for name, table in policy().tables.items()}


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path, people(600))


def test_what_is_declared_wins(here: World) -> None:
    (declared,) = here.prepare("SELECT SUM(amount) FROM orders").parts
    assert [atom.kind for atom in declared.core.atoms] == ["sum"]
    (found,) = here.prepare("SELECT SUM(order_id) FROM orders").parts
    assert [atom.kind for atom in found.core.atoms] == ["ranged"]


def test_the_range_is_paid_for_and_told(here: World) -> None:
    prepared = here.prepare("SELECT SUM(order_id) FROM orders")
    (mechanism,) = prepared.parts[0].noise.atoms
    assert isinstance(mechanism, RangedSum)
    assert prepared.cost.epsilon == pytest.approx(1.0)
    assert mechanism.histogram.cost.epsilon == pytest.approx(value_range.SHARE)
    told = "\n".join(row[0] for row in here.gate.answer("EXPLAIN VERBOSE SELECT SUM(order_id) FROM orders").rows)
    assert "bounds are found with noise, epsilon 0.25" in told
    assert "sum depends on the data" in told
    first = here.rows("SELECT SUM(order_id) FROM orders")
    assert here.spent == pytest.approx(1.0)
    assert here.rows("SELECT SUM(order_id) FROM orders") == first
    assert here.spent == pytest.approx(1.0)


@pytest.mark.full
def test_an_error_cannot_be_asked_for(here: World) -> None:
    assert "depends on the data" in str(here.refusal("SELECT SUM(order_id) FROM orders", error=50))


@pytest.mark.full
def test_most_answers_are_near(here: World) -> None:
    """Within the bar and a share for the rows beyond the range, which the bar does not know of."""
    ((exact,),) = here.raw("SELECT SUM(order_id) FROM orders")
    near = 0
    for _ in range(12):
        here.gate.ledger.forget()
        ((found, low, high),) = here.rows("SELECT SUM(order_id) FROM orders", intervals=True)
        assert low <= found <= high
        near += abs(found - exact) < 0.2 * exact
    assert near >= 10


# ---- replayed and audited

STATEMENTS |= {
    "found": "SELECT SUM(amount) FROM visits",
    "found mean": "SELECT kind, AVG(amount) FROM visits GROUP BY kind",
}


def without_bounds(**changed: Any) -> Gateway:
    tables = {"people": {}, "visits": {"unit": "person", "columns": {"kind": {"keys": ["a", "b", "c"]}}}}
    return audited_policy(tables=tables, **changed)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_one_person_moves_it_no_further(schema: Any, mechanism: str) -> None:  # noqa: F811
    given = without_bounds(mechanism=mechanism, accounting="zcdp" if mechanism == "gaussian" else "basic")
    report = audited(schema, "found", "found mean", given=given, runs=600)
    assert said(report) == ""
    shift = report.statements[0].shift
    assert shift is not None and 0.9 < shift.moved / shift.reach <= 1


def test_a_range_without_noise_is_caught(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The bound is read from the data: the person's values open the range, and the unit tells that they are there."""
    true = RangedSum.find

    def exact(self: RangedSum, histograms: Any) -> ValueRange:
        return true(RangedSum(Mechanism(list, Cost(), 0.01), self.total), histograms)

    monkeypatch.setattr(RangedSum, "find", exact)
    assert "prove a larger epsilon" in said(audited(schema, "found", given=without_bounds(), runs=1500))
