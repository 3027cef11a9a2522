"""Error bars of spreads and of arithmetic on aggregates: the value without noise lies within them, 95 times of 100."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from gateway_world import EXACT, World, people, policy, reopened, world

from sqlanon.engines import connect
from sqlanon.gateway.price.noise import noisy_table

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


@pytest.mark.full
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
BARE = ["MEDIAN(age)", "COUNT(*) + MEDIAN(age)", "COUNT(*) % 7", "CASE WHEN COUNT(*) > 3 THEN 1 END", LONG]


@pytest.mark.parametrize("asked", BARE)
def test_what_has_no_bars(pair: tuple[World, World], asked: str) -> None:
    prepared = pair[0].prepare(f"SELECT {asked} AS x FROM visits", intervals=True)
    assert prepared.columns == ("x",) and prepared.bare == ("x",)


WARDS = "SELECT ward, SUM(income) AS a, COUNT(*) AS n FROM visits GROUP BY ward"


@pytest.mark.parametrize(
    ("sql", "bare"),
    [
        (f"SELECT ward, a / n AS x, n FROM ({WARDS}) AS t", ("x", "n")),
        (f"WITH t AS ({WARDS}) SELECT ward, 1 AS one, ROUND(a / n) AS x FROM t", ("x",)),
        (f"SELECT ward, k + 1 AS x, 2 AS y FROM (SELECT ward, n AS k FROM ({WARDS}) AS t) AS u", ("x",)),
        (f"SELECT ward, SUM(n) OVER () AS x FROM ({WARDS}) AS t", ("x",)),
        (f"SELECT AVG(n) AS x FROM ({WARDS}) AS t", ("x",)),
        (f"SELECT ward FROM ({WARDS}) AS t", ()),
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", ()),
        ("SELECT age, COUNT(*) AS n FROM visits GROUP BY age", ()),
        ("SELECT size FROM regions", ()),
    ],
)
def test_numbers_with_noise_and_without_bars_are_named(
    pair: tuple[World, World], sql: str, bare: tuple[str, ...]
) -> None:
    assert pair[0].prepare(sql, intervals=True).bare == bare


def test_a_divisor_that_may_be_zero(pair: tuple[World, World]) -> None:
    sql = "SELECT SUM(visits) / COUNT(*) FILTER (WHERE age < 0) AS x FROM visits"
    ((_, low, high),) = pair[1].gate.answer(sql, intervals=True).rows
    assert (low, high) == (-math.inf, math.inf)


def test_whole_numbers_of_postgresql(pair: tuple[World, World]) -> None:
    def columns(sql: str) -> tuple[str, ...]:
        return pair[0].prepare(f"SELECT {sql} AS x FROM visits", intervals=True, dialect="postgres").columns

    assert columns("SUM(visits) / COUNT(*)") == ("x", "x_low", "x_high")
    assert columns("SUM(visits) / (1.0 * COUNT(*))") == ("x", "x_low", "x_high")


RATIOS = {
    "share": ("100.0 * COUNT(*) FILTER (WHERE ok) / COUNT(*)", "duckdb"),
    "guarded": ("SUM(income) / NULLIF(COUNT(*), 0)", "duckdb"),
    "cast": ("CAST(SUM(visits) AS DOUBLE) / COUNT(DISTINCT user_id)", "duckdb"),
    "rounded": ("ROUND(SUM(visits)::float8 / COUNT(*), 2)", "postgres"),
    "shifted": ("SUM(income) / (1000 + SUM(visits))", "duckdb"),
    "cut off": ("SUM(visits) * 100 / COUNT(*)", "postgres"),
    "product": ("COUNT(*) * COUNT(*) FILTER (WHERE NOT ok)", "duckdb"),
    "greatest": ("GREATEST(COUNT(*) FILTER (WHERE ok), COUNT(*) FILTER (WHERE NOT ok), COUNT(*) - 100)", "duckdb"),
    "root": ("SQRT(COUNT(*))", "duckdb"),
    "logarithm of a ratio": ("LN(SUM(income) / COUNT(*))", "duckdb"),
    "size": ("ABS(COUNT(*) FILTER (WHERE ok) - COUNT(*) FILTER (WHERE NOT ok))", "duckdb"),
    "otherwise": ("CASE WHEN COUNT(*) > 240 THEN COUNT(*) ELSE SUM(visits) END", "duckdb"),
    "missing": ("COALESCE(SUM(visits), 0) / 7.0", "duckdb"),
}
DRAWS = 120


@pytest.mark.full
@pytest.mark.parametrize(("asked", "dialect"), RATIOS.values(), ids=RATIOS)
def test_ratios_and_functions_hold_the_value_without_noise(pair: tuple[World, World], asked: str, dialect: str) -> None:
    """In 95 of 100 cases at least: 105 of 120 or fewer, by chance alone, are seen less than once in a thousand runs."""
    noisy, exact = pair
    sql = f"SELECT {asked} AS x FROM visits"
    ((true,),) = exact.gate.answer(sql, dialect=dialect).rows
    prepared = noisy.gate.prepare(sql, "analyst", dialect=dialect, intervals=True)
    assert prepared.columns == ("x", "x_low", "x_high") and prepared.bare == ()
    (part,) = prepared.parts
    found = noisy.gate.data.exact(part)
    inside, finite = 0, 0
    for _ in range(DRAWS):
        drawn = noisy_table(part.core, part.noise, *found, [()])
        ((value, low, high),) = noisy.gate.post.run({part.core.table: (part.core, drawn)}, prepared.noisy_sql)
        assert value is None or low <= value + 1e-9 <= high + 1e-6
        inside += low <= true <= high
        finite += math.isfinite(high - low) and high > low
    assert inside > 105, f"{inside} of {DRAWS}"
    assert finite > DRAWS / 2, "bars that say nothing"
