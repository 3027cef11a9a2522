"""Error bars of spreads and of arithmetic on aggregates: the value without noise lies within them, 95 times of 100."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gateway_world import EXACT, World, people, policy, reopened, world

from sqlanon.engines import connect
from sqlanon.gateway.noise import noisy_table

ASKED = {
    "variance": "VARIANCE(age)",
    "variance of fractions": "VAR_POP(income)",
    "stddev": "STDDEV(visits)",
    "share": "100.0 * COUNT(*) FILTER (WHERE age > 40) / COUNT(*)",
    "difference": "SUM(visits) - 2 * COUNT(*)",
    "negative": "-(AVG(age) + COUNT(*))",
    "product": "COUNT(*) * AVG(age)",
    "rounded": "ROUND(AVG(income), 1)",
    "quotient of sums": "SUM(income) / (SUM(age) + 1000)",
    "one": "COUNT(*)",
}
RUNS = 50


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    """A gate with noise, and one without, over the same rows."""
    folder = tmp_path_factory.mktemp("bars")
    rows = people(120)
    budget = {"statement": {"epsilon": 3.0, "delta": 1e-6}, "principal": {"epsilon": 90.0, "delta": 1e-3}}
    given = policy(rows=10, budget=budget)
    exact = world(folder, rows, given=given, mechanisms=EXACT, engine=connect(":memory:", read_only=False))
    noisy = reopened(folder, exact.spy.engine, given, None, "noisy.ledger")
    yield noisy, exact
    exact.close()


@pytest.mark.parametrize("name", ASKED)
def test_the_value_without_noise_lies_within(pair: tuple[World, World], name: str) -> None:
    noisy, exact = pair
    sql = f"SELECT {ASKED[name]} AS x FROM visits"
    ((true,),) = exact.rows(sql)
    prepared = noisy.prepare(sql, intervals=True)
    assert prepared.columns == ("x", "x_low", "x_high")
    inside, widths = 0, []
    (part,) = prepared.parts
    found = noisy.gate.data.exact(part)
    for _ in range(RUNS):
        drawn = noisy_table(part.core, part.noise, *found, [()])
        ((value, low, high),) = noisy.gate.post.run({part.core.table: (part.core, drawn)}, prepared.noisy_sql)
        assert low <= value <= high
        inside += low <= true <= high
        widths.append(high - low)
    assert inside >= RUNS * 0.95 - 6, f"{inside} of {RUNS}"  # fewer are seen once in ten thousand times
    assert min(widths) > 0 and max(widths) < 4 * abs(true) + 2_500, "bars that say nothing"


LONG = "+".join(["COUNT(*)"] * 9)
BARE = ["MEDIAN(age)", "COUNT(*) + MEDIAN(age)", "COALESCE(SUM(age), 0)", "CASE WHEN COUNT(*) > 3 THEN 1 END", LONG]


@pytest.mark.parametrize("asked", BARE)
def test_what_has_no_bars(pair: tuple[World, World], asked: str) -> None:
    assert pair[0].prepare(f"SELECT {asked} AS x FROM visits", intervals=True).columns == ("x",)


def test_a_divisor_that_may_be_zero(pair: tuple[World, World]) -> None:
    sql = "SELECT SUM(visits) / COUNT(*) FILTER (WHERE age < 0) AS x FROM visits"
    ((_, low, high),) = pair[1].gate.answer(sql, intervals=True).rows
    assert (low, high) == (None, None)


def test_whole_numbers_of_postgresql(pair: tuple[World, World]) -> None:
    def columns(sql: str) -> tuple[str, ...]:
        return pair[0].prepare(f"SELECT {sql} AS x FROM visits", intervals=True, dialect="postgres").columns

    assert columns("SUM(visits) / COUNT(*)") == ("x",), "it cuts off what is behind the point"
    assert columns("SUM(visits) / (1.0 * COUNT(*))") == ("x", "x_low", "x_high")
