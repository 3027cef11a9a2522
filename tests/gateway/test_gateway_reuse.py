"""Paid once: later questions are answered from noisy tables that were paid for, as far as they follow from them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from gateway_world import EXACT, World, fill, people, policy, world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlanon.engines import connect
from sqlanon.errors import Refused
from sqlanon.gateway import Gate
from sqlanon.gateway.price.noise_sums import NoisySum, half_width_of, value_of, weights_of
from sqlanon.gateway.replay.neighbours import compare_reads, read_core
from sqlanon.ledger import Ledger
from sqlanon.policy.gateway import Gateway

BUDGET = {
    "statement": {"epsilon": 4.0, "delta": 1e-6, "default": 1.0},
    "principal": {"epsilon": 100.0, "delta": 0.01},
}


def reusing(**changed: Any) -> Gateway:
    """The policy of the tests; every visit is in one of the wards W0 to W3, and somewhere in R0, R1, R2 or R99."""
    made = policy(**{"reuse": True, "budget": BUDGET} | changed)
    table = made.tables["visits"]
    ward = table.columns["ward"].model_copy(update={"keys": ("W0", "W1", "W2", "W3"), "complete": True})
    months = table.columns["visits"].model_copy(update={"keys": (1, 2, 3, 4, 5, 6)})
    columns = table.columns | {"ward": ward, "visits": months}
    return made.model_copy(update={"tables": made.tables | {"visits": table.model_copy(update={"columns": columns})}})


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    made = world(tmp_path, given=reusing())
    yield made
    made.close()


def free(here: World, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer that must cost nothing, and for which no table of persons may be read."""
    before, seen = here.spent, len(here.spy.seen)
    answer = here.gate.answer(sql, **options)
    assert answer.cost.epsilon == 0 and answer.cached and answer.reused, sql
    assert here.spent == before
    assert not [text for text in here.spy.seen[seen:] if "visits" in text or "users" in text], sql
    return [tuple(row) for row in answer.rows]


WARDS = ("W0", "W1", "W2", "W3")
BY_WARD = "SELECT ward, COUNT(*) AS n, SUM(age) AS s, COUNT(DISTINCT user_id) AS p FROM visits GROUP BY ward"


def shown(here: World, sql: str, **options: Any) -> dict[Any, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in here.rows(sql, **options)}


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", lambda t: [(w, t[w][0]) for w in sorted(t)]),
        ("SELECT ward, SUM(age), COUNT(*) FROM visits GROUP BY 1", lambda t: [(w, *t[w][1::-1]) for w in sorted(t)]),
        ("SELECT COUNT(*) FROM visits WHERE ward = 'W1'", lambda t: [(t["W1"][0],)]),
        ("SELECT COUNT(*) FROM visits v WHERE v.ward = 'W1'", lambda t: [(t["W1"][0],)]),
        ("SELECT COUNT(*) FROM visits WHERE 'W1' = ward", lambda t: [(t["W1"][0],)]),
        ("SELECT COUNT(*) FROM visits WHERE ward IN ('W1')", lambda t: [(t["W1"][0],)]),
        ("SELECT COUNT(*) FILTER (WHERE ward = 'W1') FROM visits", lambda t: [(t["W1"][0],)]),
        ("SELECT COUNT(*) FROM (SELECT * FROM visits) t WHERE ward = 'W1'", None),
        ("SELECT SUM(age) FILTER (WHERE ward = 'W1') FROM visits", lambda t: [(t["W1"][1],)]),
        ("SELECT COUNT(DISTINCT user_id) FROM visits WHERE ward = 'W2'", lambda t: [(t["W2"][2],)]),
        ("SELECT ward FROM visits GROUP BY 1 HAVING COUNT(*) > 9", lambda t: [(w,) for w in sorted(t) if t[w][0] > 9]),
        (
            "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY 2 DESC, 1 LIMIT 2",
            lambda t: sorted(((w, t[w][0]) for w in t), key=lambda row: (-row[1], row[0]))[:2],
        ),
        (
            "SELECT ward, COUNT(*) FROM visits WHERE ward IN ('W0', 'W1') GROUP BY ward",
            lambda t: [("W0", t["W0"][0]), ("W1", t["W1"][0]), ("W2", 0), ("W3", 0)],
        ),
        (
            "SELECT ward, n * 100.0 / SUM(n) OVER () FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t",
            lambda t: [(w, pytest.approx(t[w][0] * 100 / sum(row[0] for row in t.values()))) for w in sorted(t)],
        ),
        (
            "SELECT CASE WHEN ward = 'W0' THEN 'a' ELSE ward END AS k, COUNT(*) FROM visits GROUP BY 1",
            None,
        ),
    ],
)  # fmt: skip
def test_what_follows_from_a_table_is_answered_from_it(
    here: World, later: str, expected: Callable[[Any], Any] | None
) -> None:
    table = shown(here, BY_WARD)
    if expected is None:  # it is another FROM, or has other keys
        here.gate.answer(later)
        return
    assert free(here, later) == expected(table)
    assert free(here, later) == expected(table)


def test_sums_of_groups_are_what_was_shown_added_up(here: World) -> None:
    """Where they are as accurate as asked."""
    cells = dict(here.rows("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=4.0))
    sums = dict(here.rows("SELECT ward, SUM(age) FROM visits GROUP BY ward", epsilon=4.0))
    assert free(here, "SELECT COUNT(*) FROM visits") == [(sum(cells.values()),)]
    assert free(here, "SELECT SUM(age) FROM visits") == [(sum(sums.values()),)]
    both = "SELECT SUM(age), COUNT(*) FROM visits WHERE ward <> 'W0'"
    assert free(here, both) == [tuple(sum(own[w] for w in ("W1", "W2", "W3")) for own in (sums, cells))]
    assert free(here, "SELECT COUNT(*) FROM visits WHERE ward = 'W1' OR ward = 'W2'") == [(cells["W1"] + cells["W2"],)]
    merged = "SELECT CASE WHEN ward IN ('W0', 'W1') THEN 'low' ELSE 'high' END AS half, COUNT(*) FROM visits GROUP BY 1"
    assert free(here, merged) == [("high", cells["W2"] + cells["W3"]), ("low", cells["W0"] + cells["W1"])]
    # Persons may be in several groups: their numbers are not added up.
    before = here.spent
    here.gate.answer("SELECT COUNT(DISTINCT user_id) FROM visits")
    assert here.spent > before


@pytest.mark.full
def test_ranges_over_bins_and_several_keys_add_up(here: World) -> None:
    fill(here.spy.engine, people(300))  # no sum is near 0, where it would be held
    within = "visits IN (1, 2, 3)"
    sql = f"SELECT ward, visits, COUNT(*) AS n FROM visits WHERE {within} GROUP BY ward, visits"
    table = {(ward, turn): n for ward, turn, n in here.rows(sql, epsilon=4.0) if turn < 4}
    few = "SELECT ward, COUNT(*) FROM visits WHERE visits IN (1, 2) AND visits IN (1, 2, 3) GROUP BY ward"
    assert free(here, few) == [(w, table[w, 1] + table[w, 2]) for w in WARDS]
    between = f"SELECT COUNT(*) FROM visits WHERE {within} AND visits BETWEEN 2 AND 3 AND ward = 'W1'"
    assert free(here, between) == [(table["W1", 2] + table["W1", 3],)]
    many = f"SELECT visits > 2 AS many, COUNT(*) FROM visits WHERE {within} AND visits < 4 AND ward = 'W0' GROUP BY 1"
    assert free(here, many) == [(False, table["W0", 1] + table["W0", 2]), (True, table["W0", 3])]


@pytest.mark.full
@pytest.mark.parametrize(
    "later",
    [
        "SELECT COUNT(*) FROM visits WHERE age > 30",  # of no key
        "SELECT COUNT(*) FROM visits JOIN users USING (user_id)",  # other rows
        "SELECT COUNT(*) FROM users",
        "SELECT SUM(visits) FROM visits",  # of another column
        "SELECT COUNT(age) FROM visits",
        "SELECT region, COUNT(*) FROM visits GROUP BY region",
        "SELECT COUNT(*) FROM visits WHERE ward > 'W1'",  # texts are in order by collation
        "SELECT COUNT(*) FROM visits WHERE UPPER(ward) = 'W1'",
        "SELECT COUNT(DISTINCT user_id) FROM visits WHERE ward IN ('W1', 'W2')",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 2) COUNT(*) FROM visits",
    ],
)
def test_what_does_not_follow_is_paid_for(here: World, later: str) -> None:
    here.gate.answer(BY_WARD, epsilon=4.0)
    before = here.spent
    assert here.gate.answer(later).cost.epsilon == pytest.approx(1.0)
    assert here.spent == pytest.approx(before + 1.0)


def test_groups_that_leave_rows_out_do_not_add_up_to_the_whole(tmp_path: Path) -> None:
    """Of declared keys that are not complete, of private ones, and of rows that an outer join adds."""
    made = world(tmp_path, given=policy(reuse=True, budget=BUDGET))
    ask = made.gate.answer
    for fine, coarse in (
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", "SELECT COUNT(*) FROM visits"),
        ("SELECT region, SUM(age) FROM visits GROUP BY region", "SELECT SUM(age) FROM visits"),
        (
            "SELECT country, COUNT(*) FROM visits LEFT JOIN regions USING (region) GROUP BY country",
            "SELECT COUNT(*) FROM visits LEFT JOIN regions USING (region)",
        ),
    ):
        ask(fine, epsilon=4.0)
        assert ask(coarse, epsilon=0.5).cost.epsilon == pytest.approx(0.5)
    # What names declared keys does follow.
    made.gate.answer("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=4.0)
    assert ask("SELECT COUNT(*) FROM visits WHERE ward IN ('W0', 'W2')", epsilon=0.5).cost.epsilon == 0
    assert ask("SELECT COUNT(*) FROM visits WHERE ward IN ('W0', 'W9')", epsilon=0.5).cost.epsilon == pytest.approx(0.5)
    made.close()


def test_keys_of_public_tables_add_up(here: World) -> None:
    joined = "FROM visits JOIN regions USING (region)"
    table = dict(here.rows(f"SELECT country, COUNT(*) {joined} GROUP BY country", epsilon=4.0))
    assert set(table) == {"A", "B", "C"}
    assert free(here, f"SELECT COUNT(*) {joined} WHERE country <> 'C'") == [(table["A"] + table["B"],)]
    assert free(here, f"SELECT COUNT(*) {joined} WHERE country = 'B'") == [(table["B"],)]
    assert free(here, f"SELECT COUNT(*) {joined}")


def test_private_keys_that_were_shown_stay(here: World) -> None:
    crowd = {name: list(rows) for name, rows in people(300).items()}
    fill(here.spy.engine, crowd)
    first = here.rows("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon=4.0)
    assert [row[0] for row in first] == ["R0", "R1", "R2"]
    assert free(here, "SELECT region, COUNT(*) AS n FROM visits GROUP BY region") == first
    assert free(here, "SELECT region FROM visits GROUP BY region") == [(row[0],) for row in first]
    one = free(here, "SELECT region, COUNT(*) FROM visits WHERE region = 'R1' GROUP BY region")
    assert one == [row for row in first if row[0] == "R1"]
    # One more column of the same groups: of what was shown, nothing is asked again.
    both = here.gate.answer("SELECT region, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY region")
    assert [row[:2] for row in both.rows] == first
    assert 0 < both.cost.epsilon < 1.0 and both.cost.delta == 0
    # A group that did not pass its threshold is not empty.
    assert here.gate.answer("SELECT COUNT(*) FROM visits WHERE region = 'R99'").cost.epsilon > 0
    assert here.gate.answer("SELECT COUNT(*) FROM visits", epsilon=0.5).cost.epsilon > 0


# ---- what is missing is bought


def test_a_more_accurate_answer_costs_the_difference(here: World) -> None:
    """Laplace noise of epsilon e has the variance 2 (K / e)²: squares of epsilons add up, as inverse variances do."""
    count = "SELECT COUNT(*) FROM visits"
    (first,) = here.rows(count, epsilon=1.0)[0]
    more = here.gate.answer(count, epsilon=2.0)
    assert more.cost.epsilon == pytest.approx(math.sqrt(3.0), rel=1e-6)
    assert free(here, count, epsilon=2.0) == list(more.rows)
    assert free(here, count, epsilon=1.0) == [(first,)] == free(here, count)  # what was shown first stays
    most = here.gate.answer(count, epsilon=3.0)
    assert most.cost.epsilon == pytest.approx(math.sqrt(5.0), rel=1e-6)
    assert free(here, "SELECT COUNT(*) FILTER (WHERE TRUE) FROM visits", epsilon=2.0) == list(more.rows)


def test_what_is_bought_is_weighed_with_what_was_there(tmp_path: Path) -> None:
    """With the draws in view: the answer is their mean, weighed by inverse variances."""
    drawn: list[tuple[float, list[int]]] = []
    source = replace(EXACT, laplace=lambda reach, epsilon: _noted(reach, epsilon, drawn))
    made = world(tmp_path, given=reusing(), mechanisms=source)
    table = shown(made, BY_WARD.replace(", COUNT(DISTINCT user_id) AS p", "").replace(", SUM(age) AS s", ""))
    answer = made.gate.answer("SELECT COUNT(*) FROM visits", intervals=True)
    (_, first), (scale, (last,)) = drawn
    assert [row[0] for row in table.values()] == first
    bought = 1 / (2 * scale**2)
    had = 1 / (4 * 2 * 4.0**2)  # four wards, of the scale K / 1
    assert bought + had == pytest.approx(1 / (2 * 4.0**2))
    assert answer.rows[0][0] == round((bought * last + had * sum(first)) / (bought + had))
    made.close()


def _noted(reach: int, epsilon: float, drawn: list[tuple[float, list[int]]]) -> Any:
    from sqlanon.mechanisms import Cost, Mechanism

    def add(values: Any) -> list[int]:
        made = [int(value) + 7 * len(drawn) - place for place, value in enumerate(values)]
        drawn.append((reach / epsilon, made))
        return made

    return Mechanism(add, Cost(epsilon, 0.0, epsilon**2 / 2), reach / epsilon)


def test_an_error_is_asked_of_what_is_there_first(here: World) -> None:
    here.gate.answer(BY_WARD, epsilon=4.0)
    for error in (200, 40):
        assert free(here, "SELECT COUNT(*) FROM visits", error=error)
    asked = here.gate.answer("SELECT COUNT(*) FROM visits", error=8, intervals=True)
    alone = here.prepare("SELECT COUNT(*) FROM visits", error=8).cost.epsilon
    assert 0 < asked.cost.epsilon < alone
    low, high = asked.rows[0][1:]
    assert high - low <= 2 * 8
    with pytest.raises(Refused, match="is not reached"):
        here.gate.answer("SELECT COUNT(*) FROM visits", error=0.01)


def test_explain_says_what_was_paid_for(here: World) -> None:
    def told(sql: str, **options: Any) -> list[str]:
        before, seen = here.spent, len(here.spy.seen)
        prepared = here.prepare(sql, **options)
        lines = [row[0] for row in here.gate.explain(prepared, "analyst").rows]
        assert here.spent == before and not [text for text in here.spy.seen[seen:] if "visits" in text]
        return lines

    count = "SELECT COUNT(*) AS n FROM visits"
    assert told(count)[0] == "Cost: epsilon 1"
    here.gate.answer(BY_WARD, epsilon=2.0)
    assert told("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")[:2] == [
        "Cost: nothing; it follows from noisy tables that were paid for",
        "Expected error, in 95 of 100 cases: n ±18",
    ]
    part = told(count)
    assert part[0].startswith("Cost: epsilon 0.9") and part[0].endswith("of 1; the rest was paid for")
    cost = here.gate.answer(count).cost.epsilon
    assert part[0].split()[2].rstrip(",") == f"{cost:.4f}".rstrip("0")
    assert told(count)[0].startswith("Cost: nothing")
    verbose = here.gate.explain(here.prepare(BY_WARD), "analyst", verbose=True)
    assert "core_0: paid for before: rows, sum, persons" in [row[0] for row in verbose.rows]


# ---- whose tables they are, and how long


def test_nobody_gets_what_another_paid_for(tmp_path: Path) -> None:
    made = world(tmp_path, given=reusing(principals={"analyst": {}, "other": {}}))
    mine = made.rows(BY_WARD)
    answer = made.gate.answer(BY_WARD, "other")
    assert answer.cost.epsilon == pytest.approx(1.0) and [tuple(row) for row in answer.rows] != mine
    made.close()


def test_tables_last_as_long_as_the_data_and_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    engine = connect(str(path), read_only=False)
    fill(engine, people())
    made = reusing(database=str(path))
    ledger = Ledger.create(tmp_path / "x.ledger")
    engine.close()

    def opened(own: Ledger) -> Gate:
        from sqlanon.gateway.bind.catalog import Catalog
        from sqlanon.gateway.bind.schema import schema_of

        reading = connect(str(path), read_only=True)
        return Gate(made, reading, own, Catalog(made, schema_of(reading, made)))

    gate = opened(ledger)
    table = {row[0]: row[1:] for row in gate.answer(BY_WARD).rows}
    gate.close()
    again = opened(Ledger.open(tmp_path / "x.ledger"))
    found = again.answer("SELECT COUNT(*) FROM visits WHERE ward = 'W2'")
    assert found.cost.epsilon == 0 and found.rows == ((table["W2"][0],),)
    again.close()
    engine = connect(str(path), read_only=False)
    engine._connection.execute("INSERT INTO visits SELECT * FROM visits LIMIT 1")  # type: ignore[attr-defined]
    engine.close()
    newer = opened(Ledger.open(tmp_path / "x.ledger"))
    assert newer.answer("SELECT COUNT(*) FROM visits WHERE ward = 'W2'").cost.epsilon == pytest.approx(1.0)
    newer.ledger.verify()
    newer.close()


def test_tables_that_were_forgotten_or_damaged_are_paid_for_again(here: World) -> None:
    here.gate.answer(BY_WARD)
    connection = here.gate.ledger._connection
    assert connection is not None
    connection.execute("UPDATE answers SET answer = replace(answer, '1', '2')")
    assert here.gate.answer("SELECT COUNT(*) FROM visits WHERE ward = 'W1'").cost.epsilon == pytest.approx(1.0)
    here.gate.ledger.forget()
    assert here.gate.answer("SELECT COUNT(*) FROM visits WHERE ward = 'W1'").cost.epsilon == pytest.approx(1.0)


def test_without_reuse_each_question_is_paid_for(tmp_path: Path) -> None:
    made = world(tmp_path, given=reusing(reuse=False))
    made.gate.answer(BY_WARD)
    assert made.gate.answer("SELECT COUNT(*) FROM visits WHERE ward = 'W1'").cost.epsilon == pytest.approx(1.0)
    made.close()


def test_the_policy_says_so_and_older_answers_stay_valid() -> None:
    assert policy().fingerprint != policy(reuse=True).fingerprint
    dumped = policy().model_dump()
    assert dumped["reuse"] is False
    with pytest.raises(ValueError, match="is complete, and has no keys"):
        policy(tables={"users": {}, "visits": {"unit": "user_id", "columns": {"age": {"complete": True}}}})


# ---- what is shown twice is the same


ACCURACIES = [None, None, 0.5, 1.0, 2.0]
WAYS: dict[str, list[str]] = {
    ward: [
        f"SELECT COUNT(*) AS n FROM visits WHERE ward = '{ward}'",
        f"SELECT COUNT(*) FILTER (WHERE ward = '{ward}') AS n FROM visits",
        f"SELECT COUNT_IF(ward = '{ward}') AS n FROM visits",
        f"SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY ward) t WHERE ward = '{ward}'",
        f"SELECT COUNT(*) AS n FROM visits v WHERE '{ward}' = v.ward HAVING COUNT(*) > -1",
        f"WITH t AS (SELECT ward AS w, COUNT(*) AS n FROM visits GROUP BY 1) SELECT n FROM t WHERE w = '{ward}'",
        f"SELECT COUNT(*) AS n FROM visits WHERE ward IN ('{ward}') AND ward IN ('W0', 'W1', 'W2', 'W3')",
    ]
    for ward in WARDS
}


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(WARDS), st.integers(0, 6), st.sampled_from([None, 0.5, 1.0, 2.0])), max_size=9)
)
def test_a_number_is_the_same_in_whichever_way_it_is_asked(tmp_path_factory: Any, asked: Any) -> None:
    """By accuracy: of the same accuracy there is one number, and without one it is the first that was shown."""
    made = world(tmp_path_factory.mktemp("ways"), given=reusing())
    first: dict[tuple[str, Any], int] = {}
    for ward, way, epsilon in asked:
        sql = WAYS[ward][way]
        if epsilon is not None and "SUM" in sql:
            continue  # its accuracy is that of both columns
        (row,) = made.rows(sql, **({} if epsilon is None else {"epsilon": epsilon}))
        assert first.setdefault((ward, epsilon), row[0]) == row[0], sql
    for (ward, epsilon), value in first.items():
        if epsilon is None:
            before = made.spent
            assert {made.rows(WAYS[ward][way])[0][0] for way in (0, 1, 2, 4, 6)} == {value}
            assert made.spent == before
            # Beside other groups it is the same, too.
            assert {made.rows(WAYS[ward][way])[0][0] for way in (3, 5)} == {value}
    made.close()


# ---- how far off


def tail_by_convolution(sums: list[NoisySum], width: float) -> float:
    """P[|rounded estimate - truth| > width], by adding up distributions on a grid: another way than moments."""
    import numpy as np

    grid, step = 2**15, 0.05 * max(each.scale for each in sums)
    frequencies = 2 * np.pi * np.fft.fftfreq(grid, d=step)
    product = np.ones(grid)
    for each, weight in zip(sums, weights_of(sums), strict=True):
        u = frequencies * weight * each.scale
        own = 1 / (1 + u**2) if each.noise == "laplace" else np.exp(-(u**2) / 2)
        product = product * own**each.cells
    density = np.fft.fftshift(np.fft.ifft(product).real)
    places = (np.arange(grid) - grid // 2) * step
    inside = width + (0.5 if len(sums) > 1 else 0.0)  # what is rounded to a whole number beside a whole number
    return float(density[np.abs(places) > inside].sum())


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100])
@pytest.mark.parametrize(
    "other",
    [None, NoisySum("laplace", 40.0, 1), NoisySum("laplace", 7.0, 5), NoisySum("gaussian", 30.0, 2)],
)
def test_error_bars_of_sums_hold_in_95_of_100_cases(count: int, other: NoisySum | None) -> None:
    for noise in ("laplace", "gaussian"):
        sums = [NoisySum(noise, 30.0, count), *([other] if other is not None else [])]
        width = half_width_of(sums)
        assert tail_by_convolution(sums, width) <= 0.05
        assert tail_by_convolution(sums, width * 0.9) > 0.05  # and they are not much too wide


def test_estimates_are_weighed_exactly() -> None:
    sums = [NoisySum("laplace", 2.0, 3, 10**17 + 3), NoisySum("gaussian", 2.0, 1, 10**17 + 9)]
    weights = [1 / (3 * 8), 1 / 4]
    mean = 3 * weights[0] / sum(weights) + 9 * weights[1] / sum(weights)
    assert value_of(sums) == 10**17 + round(mean)
    assert value_of([NoisySum("laplace", 0.0, 0), sums[0]]) == 0 and half_width_of([NoisySum("laplace", 0.0, 0)]) == 0


LATER = [
    "SELECT COUNT(*) FROM visits",
    "SELECT SUM(age) FROM visits WHERE ward <> 'W3'",
    "SELECT CASE WHEN ward IN ('W0', 'W1') THEN 'a' ELSE 'b' END AS k, COUNT(*), SUM(age) FROM visits GROUP BY 1",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
]


def covered(folder: Path, runs: int, mechanism: str = "laplace") -> tuple[int, int]:
    """Of numbers that were answered later, how many are within their bars; against the same question without noise."""
    given = reusing(mechanism=mechanism, accounting="zcdp" if mechanism == "gaussian" else "basic")
    exact = world(folder, given=given.model_copy(update={"reuse": False}), mechanisms=EXACT, name="exact.ledger")
    truth = {sql: exact.rows(sql) for sql in LATER}
    exact.close()
    made = world(folder, given=given, name="noisy.ledger")
    inside = numbers = 0
    for run in range(runs):
        made.gate.ledger = Ledger.create(folder / f"{run}.ledger")
        made.gate.answer(BY_WARD, epsilon=2.0)
        for sql, options in itertools.product(LATER, ({"epsilon": 0.4}, {"epsilon": 1.5})):
            answer = made.gate.answer(sql, intervals=True, **options)
            names = list(answer.columns)
            for row, right in zip(answer.rows, truth[sql], strict=True):
                held = dict(zip(names, row, strict=True))
                for place, value in enumerate(right):
                    if isinstance(value, int | float) and f"{names[place]}_low" in held:
                        numbers += 1
                        inside += held[f"{names[place]}_low"] <= value <= held[f"{names[place]}_high"]
        made.gate.ledger.close()
    made.close()
    return inside, numbers


@pytest.mark.full
def test_answers_from_paid_tables_are_within_their_bars(tmp_path: Path) -> None:
    inside, numbers = covered(tmp_path, 4)
    assert inside >= 0.88 * numbers  # 95 % are expected


@pytest.mark.full
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_answers_from_paid_tables_are_within_their_bars_in_95_of_100_cases(tmp_path: Path, mechanism: str) -> None:
    inside, numbers = covered(tmp_path, 60, mechanism)
    assert inside >= 0.94 * numbers


# ---- what is bought is bounded as everything is


ASKED = [
    BY_WARD,
    "SELECT COUNT(*) FROM visits",
    "SELECT region, COUNT(*) FROM visits GROUP BY region",
    "SELECT region, COUNT(*), SUM(income), COUNT(DISTINCT user_id) FROM visits GROUP BY region",
    "SELECT ward, region, SUM(age), AVG(income) FROM visits GROUP BY ward, region",
    "SELECT ward, SUM(age) FROM visits WHERE ward IN ('W0', 'W1') GROUP BY ward",
    "SELECT country, COUNT(*), MEDIAN(age) FROM visits JOIN regions USING (region) GROUP BY country",
    "SELECT SUM(age) FROM visits JOIN regions USING (region) WHERE country <> 'A'",
    "SELECT home, COUNT(*) FROM users GROUP BY home",
    "SELECT home, COUNT(*), COUNT(DISTINCT user_id) FROM users GROUP BY home",
]


@pytest.mark.parametrize("seed", range(examples(10)))
def test_what_is_bought_reads_no_more_of_a_person_than_its_noise_is_for(tmp_path: Path, seed: int) -> None:
    """Neighbours with one ledger: both plan the same, and what both read differs by what the noise is made for."""
    chance = random.Random(seed)
    tables = people(12)
    crowded = {**tables, "visits": tables["visits"] + [row | {"user_id": 3} for row in tables["visits"]]}
    fewer = {name: [row for row in rows if row.get("user_id") != 3] for name, rows in crowded.items()}
    fewer["items"] = [row for row in crowded["items"] if row["order_id"] != 30]
    given = reusing(minimum_group=1)
    one = world(tmp_path, crowded, given=given)
    other = world(tmp_path, fewer, given=given, name="other.ledger")
    other.gate.ledger.close()
    other.gate.ledger = one.gate.ledger
    checked = 0
    for sql in chance.choices(ASKED, k=6):
        options = chance.choice([{}, {"epsilon": 0.5}, {"epsilon": 2.0}])
        prepared, same = one.prepare(sql, **options), other.prepare(sql, **options)
        ours, others = one.gate.paid.plan(prepared, "analyst"), other.gate.paid.plan(same, "analyst")
        for mine, theirs in zip(ours, others, strict=True):
            assert (
                (mine.buys is None) == (theirs.buys is None) and mine.cost == theirs.cost and mine.keys == theirs.keys
            )
            if mine.buys is None or theirs.buys is None:
                continue
            written = [[each.sql("duckdb") for each in plan.buys.statements] for plan in (mine, theirs) if plan.buys]
            assert written[0] == written[1]
            groups = prepared.limit.groups if mine.buys.core.keys and not mine.buys.core.unique else 1
            reads = read_core(one.gate, mine.buys), read_core(other.gate, theirs.buys)
            _, wrong = compare_reads(mine.buys, *reads, groups=groups)
            assert not wrong, f"{wrong}: {sql}"
            checked += 1
        one.gate.answer(sql, **options)
    assert checked
    one.close()


def test_everything_that_is_drawn_is_paid_for(tmp_path: Path) -> None:
    """The epsilons of all noise that is drawn, beside what the ledger says."""
    drawn: list[float] = []

    def counted(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*given: Any) -> Any:
            found = make(*given)
            name = "select" if hasattr(found, "select") else "choose" if hasattr(found, "choose") else "add_noise"
            draw = getattr(found, name)

            def noted(values: Any) -> Any:
                drawn.append(found.cost.epsilon)
                return draw(values)

            return replace(found, **{name: noted})

        return made

    from sqlanon.gateway.price.noise import Mechanisms

    plain = Mechanisms()
    source = Mechanisms(
        counted(plain.laplace), counted(plain.gaussian), counted(plain.select_keys), counted(plain.choose_best)
    )
    made = world(tmp_path, people(300), given=reusing(), mechanisms=source)
    chance = random.Random(1)
    for sql in chance.choices([each for each in ASKED if "MEDIAN" not in each], k=12):
        drawn.clear()
        answer = made.gate.answer(sql, **chance.choice([{}, {"epsilon": 0.5}, {"epsilon": 3.0}]))
        # Where no key is selected there is nothing to add noise to.
        assert sum(drawn) <= answer.cost.epsilon * (1 + 1e-9)
        assert not answer.rows or sum(drawn) == pytest.approx(answer.cost.epsilon, rel=1e-9)
    made.close()


def test_the_ledger_holds_no_literal_of_a_statement(here: World) -> None:
    """Nor does it of statements that are answered at no cost."""
    here.gate.answer("SELECT COUNT(*) AS n FROM users WHERE email = 'Adele Varens' AND home <> 'Thornfield'")
    here.gate.answer("SELECT COUNT(*) FILTER (WHERE note LIKE 'Lowood%') AS n FROM visits WHERE note = 'Rochester'")
    here.gate.answer(BY_WARD, epsilon=4.0)
    free(
        here,
        "SELECT CASE WHEN ward IN ('W0', 'W1') THEN 'Moor House' ELSE 'b' END AS k, SUM(age) FROM visits GROUP BY 1",
        epsilon=0.1,
    )
    connection = here.gate.ledger._connection
    assert connection is not None
    held = str(
        connection.execute("SELECT * FROM answers").fetchall() + connection.execute("SELECT * FROM events").fetchall()
    )
    for word in ("Varens", "Thornfield", "Lowood", "Rochester", "Moor", "SELECT", "visits"):
        assert word not in held


def test_what_costs_nothing_fills_no_disk(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    here.gate.answer(BY_WARD, epsilon=4.0)
    connection = here.gate.ledger._connection
    assert connection is not None
    monkeypatch.setattr("sqlanon.ledger.MOST_KEPT", 12)
    found = {}
    for ward, other in itertools.permutations(WARDS, 2):
        sql = f"SELECT SUM(age) FROM visits WHERE ward IN ('{ward}', '{other}')"
        found[sql] = free(here, sql, epsilon=0.1)
    (kept,) = connection.execute("SELECT COUNT(*) FROM answers").fetchone()
    assert kept <= 13
    assert {sql: free(here, sql, epsilon=0.1) for sql in found} == found  # as before, by the order of the tables
