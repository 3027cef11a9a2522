"""Two releases of the same rows: no attack that solves both together does better than on draws that are independent."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import correlation, covariance, fmean, pvariance
from typing import Any

import numpy as np
import pytest
import transforming
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from transforming import KEY, OTHER_KEY, changed, load, people, policy, with_people

from sqlanon import transformations
from sqlanon.engines import connect
from sqlanon.errors import PolicyError
from sqlanon.relations.classes import Prelude
from sqlanon.relations.transformation_tables import Outline, plan_transformations

Use = dict[str, dict[str, Any]]
Row = dict[str, Any]

# ---- all methods that draw: other parameters have other seeds

shares = st.floats(0.01, 0.99).map(lambda value: round(value, 2))
levels = st.floats(0.01, 5).map(lambda value: round(value, 2))
one = st.just(["income"])
PARAMS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "additive_noise": st.fixed_dictionaries(
        {"columns": st.sampled_from([["income"], ["age", "income"], ["income", "age"]]), "alpha": levels},
        optional={"kind": st.sampled_from(["uncorrelated", "correlated", "linear"])},
    ),
    "alpha_beta": st.fixed_dictionaries(
        {
            "columns": st.sampled_from([["age", "town"], ["age", "income"]]),
            "alpha": st.floats(0.01, 0.5),
            "beta": st.floats(0.1, 0.2),
            "d": st.just(0.1),
            "gamma": st.just(0.6),
        }
    ),
    "condensation": st.fixed_dictionaries({"columns": one, "k": st.integers(2, 50)}, optional={"block": st.just(80)}),
    "data_swap": st.fixed_dictionaries(
        {"columns": one, "share": shares}, optional={"within": st.sampled_from([["town"], ["town", "age"]])}
    ),
    "masking": st.fixed_dictionaries(
        {"columns": st.just(["town"]), "format": st.sampled_from(["phone", "name"])},
        optional={"keep_first": st.integers(0, 3), "keep_last": st.integers(0, 3)},
    ),
    "permutation": st.fixed_dictionaries(
        {"columns": st.sampled_from([["income"], ["income", "age"]])},
        optional={"within": st.sampled_from([["town"], ["town", "job"]])},
    ),
    "pram": st.fixed_dictionaries(
        {"columns": st.just(["town"]), "keep": shares}, optional={"invariant": st.booleans()}
    ),
    "random_replacement": st.fixed_dictionaries(
        {"columns": st.just(["town"]), "retention": shares},
        optional={"domain": st.sampled_from([["A", "B", "C"], ["A", "B", "C", "D"]])},
    ),
    "rank_swap": st.fixed_dictionaries({"columns": one, "percent": st.integers(1, 100)}),
    "resampling": st.fixed_dictionaries({"columns": one, "samples": st.integers(1, 9)}),
    "rounding": st.fixed_dictionaries({"columns": one, "base": st.integers(1, 5000), "random": st.just(True)}),
}


def test_all_methods_that_draw_are_attacked() -> None:
    drawing = {name for name in transformations.names() if transformations.method(name).uses_secret is not False}
    # Samples and truncations at several sizes lie in one another, so that two of them tell no more than the larger one.
    assert drawing == {*PARAMS, "sampling", "truncation"}


def seeds(uses: Sequence[Use]) -> set[str]:
    """The labels of all seeds of a policy: what its draws depend on beside the secret and the rows."""
    asked = policy(list(uses))
    outline = Outline(transforming.TYPES, "duckdb", "unique", {str(place): 100 for place in range(len(uses))})
    prelude = Prelude(None, "duckdb")  # type: ignore[arg-type]
    actions = plan_transformations(asked, exp.select("*").from_("people"), outline, prelude, KEY)
    found = next(item for item in actions if getattr(item, "name", "") == "sqlanon_changed_seeds")
    query = found.query  # type: ignore[union-attr]
    return {node.this.this.name for node in query.find_all(exp.Alias) if node.alias == "label"}


def filled(name: str, params: dict[str, Any]) -> dict[str, Any]:
    return dict(transformations.method(name).Params.model_validate(params).model_dump(mode="json"))


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
@pytest.mark.full
def test_other_parameters_have_other_seeds_and_the_same_ones_have_the_same(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(PARAMS)))
    first, second = data.draw(PARAMS[name]), data.draw(PARAMS[name])
    found = seeds([{name: first}]), seeds([{name: second}])
    assert found[0] and found[1]
    a, b = filled(name, first), filled(name, second)
    if a == b:
        assert found[0] == found[1]
        return
    if name == "additive_noise":  # a column by itself has the same noise whatever stands beside it
        alike = [item["alpha"] == a["alpha"] for item in (a, b)] == [True, True]
        apart = a["kind"] == b["kind"] == "uncorrelated"
        together = a["columns"] == b["columns"] and "uncorrelated" not in (a["kind"], b["kind"])
        if alike and (apart or together):
            assert found[0] & found[1]
            return
    assert not found[0] & found[1]


def test_what_was_done_to_a_column_before_changes_its_draws() -> None:
    """Otherwise x + noise and round(x) + noise would give away what rounding hides."""
    noise = {"additive_noise": {"columns": ["income"], "alpha": 0.5}}
    rounded = {"rounding": {"columns": ["income"], "base": 1000}}
    elsewhere = {"rounding": {"columns": ["age"], "base": 10}}
    assert not seeds([noise]) & seeds([rounded, noise])
    assert seeds([noise]) == seeds([elsewhere, noise]) == seeds([noise, rounded])
    assert len(seeds([noise, noise])) == 2
    assert not seeds([noise]) & seeds([{"sampling": {"share": 0.5}}, noise])
    rounding = {"rounding": {"columns": ["income"], "base": 10, "random": True}}
    assert not seeds([noise, rounding]) & seeds([rounding])


def test_how_results_are_written_changes_no_draw() -> None:
    for decimals in (0, 3):
        use = {"additive_noise": {"columns": ["rent"], "alpha": 0.5, "decimals": decimals}}
        assert seeds([use]) == seeds([{"additive_noise": {"columns": ["rent"], "alpha": 0.5}}])
    plain: dict[str, Any] = {"columns": ["town"], "retention": 0.3}
    assert seeds([{"random_replacement": plain}]) == seeds(
        [{"random_replacement": {**plain, "rho1": 0.1, "rho2": 0.6}}]
    )


# ---- attacks on two releases

ROWS = 600
TYPES = {"id": "BIGINT", "x": "BIGINT", "g": "INTEGER", "c": "VARCHAR", "w": "VARCHAR"}
ROLES = {"id": "identifier", "x": "quasi_identifier", "g": "insensitive", "c": "insensitive", "w": "insensitive"}


def population(seed: int) -> list[Row]:
    draw = random.Random(seed)
    values = draw.sample(range(100_000), ROWS)
    return [
        {"id": number, "x": values[number], "g": number % 2, "c": draw.choice("ABCDE"), "w": f"{values[number]:05}"}
        for number in range(ROWS)
    ]


def solve_noise(a: dict[str, Any], b: dict[str, Any], one: Row, other: Row) -> float:
    """Two equations with one draw: y = x + s·√alpha·z."""
    p, q = math.sqrt(a["alpha"]), math.sqrt(b["alpha"])
    return float((q * one["x"] - p * other["x"]) / (q - p))


def solved_noise(a: dict[str, Any], b: dict[str, Any], rows: list[Row], one: list[Row], other: list[Row]) -> float:
    spread = math.sqrt(pvariance([row["x"] for row in rows]))
    slack = 4 / abs(math.sqrt(a["alpha"]) - math.sqrt(b["alpha"]))  # of results that are rounded to integers
    close = [
        abs(solve_noise(a, b, *pair) - row["x"]) < max(slack, spread / 1000)
        for row, *pair in zip(rows, one, other, strict=True)
    ]
    return fmean(close)


def solved_rounding(a: dict[str, Any], b: dict[str, Any], rows: list[Row], one: list[Row], other: list[Row]) -> float:
    """The values for which one draw leads to both results, where these are less than half of those that are possible:
    how often the truth is among them."""
    right = []
    for row, first, second in zip(rows, one, other, strict=True):
        low = max(first["x"] - a["base"], second["x"] - b["base"])
        high = min(first["x"] + a["base"], second["x"] + b["base"])
        x = np.arange(low + 1, high)
        # floor(x / base + u) = k where k - x / base <= u < k + 1 - x / base
        starts = [first["x"] / a["base"] - x / a["base"], second["x"] / b["base"] - x / b["base"]]
        possible = np.maximum(np.maximum(*starts), 0) < np.minimum(np.minimum(*starts) + 1, 1)
        if possible.sum() < len(x) / 2:
            right.append(row["x"] in x[possible])
    return fmean(right) if right else 0.0


def solved_swap(a: dict[str, Any], b: dict[str, Any], rows: list[Row], one: list[Row], other: list[Row]) -> float:
    """Rows whose values moved by the same share of the distance that is allowed."""
    order = sorted(row["x"] for row in rows)
    rank = {value: place for place, value in enumerate(order)}
    moved = [
        [(rank[after["x"]] - rank[row["x"]]) / use["percent"] for row, after in zip(rows, found, strict=True)]
        for use, found in ((a, one), (b, other))
    ]
    return correlation(*moved)


def solved_patterns(name: str) -> Callable[[dict[str, Any], dict[str, Any], list[Row], list[Row], list[Row]], float]:
    """How often both releases leave a value as it was, or change it, alike: correlation of the two."""

    def solved(a: dict[str, Any], b: dict[str, Any], rows: list[Row], one: list[Row], other: list[Row]) -> float:
        same = [[float(x[name] == row[name]) for row, x in zip(rows, found, strict=True)] for found in (one, other)]
        return correlation(*same) if all(len(set(item)) == 2 for item in same) else 0.0

    return solved


def solved_values(a: dict[str, Any], b: dict[str, Any], rows: list[Row], one: list[Row], other: list[Row]) -> float:
    """Whether the values that rows got in both releases have to do with each other beyond what stays."""
    return correlation(*[[float(row["x"]) for row in found] for found in (one, other)])


def solved_halves(a: dict[str, Any], b: dict[str, Any], rows: list[Row], one: list[Row], other: list[Row]) -> float:
    """Two groups of about a half each: whether a row lies on the same side of its group in both releases."""
    order = sorted(range(len(rows)), key=lambda place: rows[place]["x"])
    half = {place: number < len(rows) / 2 for number, place in enumerate(order)}
    inner = [place for number, place in enumerate(order) if not 0.3 < number / len(rows) < 0.7]  # in either release
    off = []
    for found in (one, other):
        means = {side: fmean(found[place]["x"] for place in inner if half[place] is side) for side in (True, False)}
        off.append([found[place]["x"] - means[half[place]] for place in inner])
    return correlation(*off)


def solved_masks(a: dict[str, Any], b: dict[str, Any], rows: list[Row], one: list[Row], other: list[Row]) -> float:
    """Characters that moved on by as many places in both releases."""
    same = [
        (int(x["w"][at]) - int(row["w"][at])) % 10 == (int(y["w"][at]) - int(row["w"][at])) % 10
        for row, x, y in zip(rows, one, other, strict=True)
        for at in range(2, 5)
        if min(a["keep_first"], b["keep_first"]) <= at
    ]
    return fmean(same)


def pairs_of(values: st.SearchStrategy[Any], apart: Callable[[Any, Any], bool]) -> st.SearchStrategy[tuple[Any, Any]]:
    return st.tuples(values, values).filter(lambda pair: apart(*pair))


ATTACKS: dict[str, tuple[st.SearchStrategy[tuple[dict[str, Any], dict[str, Any]]], Any]] = {
    "additive_noise": (
        pairs_of(levels, lambda a, b: abs(a - b) > 0.05).map(
            lambda pair: tuple({"columns": ["x"], "alpha": value} for value in pair)
        ),
        solved_noise,
    ),
    "rounding": (
        pairs_of(st.integers(10, 400), lambda a, b: a != b).map(
            lambda pair: tuple({"columns": ["x"], "base": value, "random": True} for value in pair)
        ),
        solved_rounding,
    ),
    "pram": (
        pairs_of(st.integers(2, 8), lambda a, b: abs(a - b) > 1).map(
            lambda pair: tuple({"columns": ["c"], "keep": value / 10} for value in pair)
        ),
        solved_patterns("c"),
    ),
    "random_replacement": (
        pairs_of(st.integers(2, 8), lambda a, b: abs(a - b) > 1).map(
            lambda pair: tuple({"columns": ["c"], "retention": value / 10} for value in pair)
        ),
        solved_patterns("c"),
    ),
    "rank_swap": (
        pairs_of(st.integers(5, 60), lambda a, b: a != b).map(
            lambda pair: tuple({"columns": ["x"], "percent": value} for value in pair)
        ),
        solved_swap,
    ),
    "data_swap": (
        pairs_of(st.integers(2, 8), lambda a, b: a != b).map(
            lambda pair: tuple({"columns": ["x"], "share": value / 10} for value in pair)
        ),
        solved_patterns("x"),
    ),
    "permutation": (st.just(({"columns": ["x"]}, {"columns": ["x"], "within": ["g"]})), solved_values),
    "resampling": (
        pairs_of(st.integers(1, 6), lambda a, b: a != b).map(
            lambda pair: tuple({"columns": ["x"], "samples": value} for value in pair)
        ),
        lambda a, b, rows, one, other: _spacings(rows, one, other),
    ),
    "condensation": (
        pairs_of(st.integers(210, 299), lambda a, b: a != b).map(
            lambda pair: tuple({"columns": ["x"], "k": value, "block": 1000} for value in pair)
        ),
        solved_halves,
    ),
    "masking": (
        st.just(tuple({"columns": ["w"], "format": "phone", "keep_first": first} for first in (0, 1))),
        solved_masks,
    ),
}


def _spacings(rows: list[Row], one: list[Row], other: list[Row]) -> float:
    """What resampling does to the distance of neighbours: distances of the truth are taken out."""
    order = sorted(range(len(rows)), key=lambda place: rows[place]["x"])
    found = []
    for release in (one, other):
        shift = [release[place]["x"] - rows[place]["x"] for place in order]
        found.append([b - a for a, b in pairwise(shift)])
    truth = [float(rows[b]["x"] - rows[a]["x"]) for a, b in pairwise(order)]
    x, y, z = correlation(*found), correlation(found[0], truth), correlation(found[1], truth)
    return (x - y * z) / math.sqrt((1 - y**2) * (1 - z**2))


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(ATTACKS))
@settings(max_examples=examples(4), deadline=None)
@given(st.data())
def test_two_releases_are_solved_no_better_than_independent_ones(name: str, data: st.DataObject) -> None:
    pairs, attack = ATTACKS[name]
    first, second = data.draw(pairs)
    a, b = filled(name, first), filled(name, second)
    rows = population(data.draw(st.integers(0, 999)))
    database = Database(connect(":memory:"))
    load(database, "people", TYPES, rows)
    one = changed(database, [{name: first}], columns=ROLES)
    both = attack(a, b, rows, one, changed(database, [{name: second}], columns=ROLES))
    apart = attack(a, b, rows, one, changed(database, [{name: second}], columns=ROLES, secret=OTHER_KEY))
    # Each of the two is a mean, or a correlation, over the rows.
    assert both - apart < 5.5 * math.sqrt(2 / (ROWS / 2)) / 2 + 0.02, (both, apart)
    database.engine.close()


def test_noise_at_two_levels_does_not_give_the_data_back(database: Database) -> None:
    rows = people(3000 if database.engine.dialect == "duckdb" else 300, nulls=False)
    with_people(database, rows)
    found = [changed(database, [{"additive_noise": {"columns": ["income"], "alpha": a}}]) for a in (0.1, 0.5)]
    guesses = [
        (0.5**0.5 * one["income"] - 0.1**0.5 * two["income"]) / (0.5**0.5 - 0.1**0.5)
        for one, two in zip(*found, strict=True)
    ]
    near = sum(abs(guess - row["income"]) < 5 for guess, row in zip(guesses, rows, strict=True))
    assert near < len(rows) / 100


def test_a_row_more_does_not_give_the_data_back(database: Database) -> None:
    """The scale of the noise follows the data: the draws must not stay the same at a scale that differs a little."""
    rows = people(400, nulls=False)
    use = [{"additive_noise": {"columns": ["rent"], "alpha": 0.5}}]
    with_people(database, rows)
    before = changed(database, use)
    for rent in (900.0, 8000.0):
        with_people(database, [*rows, {**rows[0], "id": 400, "rent": rent}])
        after = changed(database, use)[:400]
        noise = [[row["rent"] - own["rent"] for own, row in zip(rows, found, strict=True)] for found in (before, after)]
        if noise[0] == noise[1]:  # nothing new at all
            assert rent == 900.0
        else:
            assert abs(correlation(*noise)) < 4.5 / math.sqrt(400)


def test_records_that_were_made_up_twice_have_nothing_to_do_with_each_other(duck: Database) -> None:
    load(duck, "people", TYPES, [{**row, "x": row["id"] % 60} for row in population(5)])
    shown = []
    for alpha, secret in ((0.3, KEY), (0.2, KEY), (0.2, OTHER_KEY)):
        made = {"columns": ["x", "c"], "alpha": alpha, "beta": 0.2, "d": 0.1, "gamma": 0.5}
        made["domain"] = {"x": {"low": 0, "high": 399}}  # type: ignore[assignment]
        found = changed(duck, [{"alpha_beta": made}], columns=ROLES, secret=secret)
        shown.append({(row["x"], row["c"]) for row in found if row["x"] >= 60})
    spread = math.sqrt(340 * 5 * 0.04 * 0.96)
    for other in shown[1:]:
        assert abs(len(shown[0] & other) - 340 * 5 * 0.04) < 4.5 * spread


def test_a_smaller_sample_is_a_part_of_a_larger_one(duck: Database) -> None:
    with_people(duck, people(2000))
    drawn = [
        {row["id"] for row in changed(duck, [{"sampling": use}])}
        for use in ({"share": 0.1}, {"share": 0.3}, {"share": 0.1, "exact": True}, {"share": 0.3, "exact": True})
    ]
    assert drawn[0] < drawn[1] and drawn[2] < drawn[3]
    assert len(set.union(*drawn)) <= max(map(len, drawn))
    twice = changed(duck, [{"sampling": {"share": 0.5}}, {"sampling": {"share": 0.5}}])
    assert abs(len(twice) - 500) < 100


# ---- ladders

LADDER = [0.1, 0.2, 0.5]


def on_ladder(alpha: float, kind: str = "uncorrelated", columns: Sequence[str] = ("rent",)) -> list[Use]:
    return [{"additive_noise": {"columns": list(columns), "alpha": alpha, "ladder": LADDER, "kind": kind}}]


@pytest.mark.parametrize("kind", ["uncorrelated", "correlated"])
def test_versions_of_a_ladder_together_tell_no_more_than_the_best_one(duck: Database, kind: str) -> None:
    rows = people(8000, nulls=False)
    with_people(duck, rows)
    names = ["rent"] if kind == "uncorrelated" else ["tax", "rent"]
    truth = np.array([row["rent"] for row in rows])
    found = np.array([[row["rent"] for row in changed(duck, on_ladder(a, kind, names))] for a in LADDER])
    noise = found - truth
    spread = truth.var()
    # Corner waves: the covariance of two levels is the variance of the lower one.
    for i, low in enumerate(LADDER):
        for j, high in enumerate(LADDER):
            assert np.mean(noise[i] * noise[j]) == pytest.approx(min(low, high) * spread, rel=0.08)
    steps = np.diff(noise, axis=0)
    assert abs(np.corrcoef(steps[0], steps[1])[0, 1]) < 4.5 / math.sqrt(8000)
    assert abs(np.corrcoef(noise[0], steps[0])[0, 1]) < 4.5 / math.sqrt(8000)

    def error(used: list[int]) -> float:
        """Of the best linear guess from some of the versions, fitted to the truth itself."""
        seen = np.vstack([found[used], np.ones(8000)]).T
        guess = seen @ np.linalg.lstsq(seen, truth, rcond=None)[0]
        return float(np.mean((guess - truth) ** 2))

    best = error([0])
    assert error([0, 1, 2]) > best * (1 - 10 / 8000)
    assert error([1, 2]) > error([1]) * (1 - 10 / 8000)
    assert best == pytest.approx(spread * 0.1 / 1.1, rel=0.08) and error([2]) > 1.5 * best
    # Independent draws at the same levels would tell more.
    apart = [changed(duck, [{"additive_noise": {"columns": ["rent"], "alpha": a}}]) for a in LADDER[1:]]
    seen = np.vstack([found[0], *[[row["rent"] for row in one] for one in apart], np.ones(8000)]).T
    guess = seen @ np.linalg.lstsq(seen, truth, rcond=None)[0]
    assert np.mean((guess - truth) ** 2) < 0.7 * best


def test_the_noise_of_a_level_begins_with_that_of_the_levels_below() -> None:
    """Exactly: the seeds of a level are those of the level below, and one more. So for independent steps of variance
    a(i) - a(i-1) the covariance of two levels is the smaller variance, whatever they are."""
    found = [seeds(on_ladder(a)) for a in LADDER]
    assert [len(item) for item in found] == [1, 2, 3] and found[0] < found[1] < found[2]
    assert seeds([{"additive_noise": {"columns": ["rent"], "alpha": 0.1}}]) == found[0]
    other = {"additive_noise": {"columns": ["rent"], "alpha": 0.5, "ladder": [0.1, 0.3, 0.5]}}
    assert found[2] & seeds([other]) == found[0]


def test_linear_noise_on_a_ladder_keeps_covariances(duck: Database) -> None:
    rows = people(6000, nulls=False)
    with_people(duck, rows)
    for level in LADDER:
        found = changed(duck, on_ladder(level, "linear", ["rent", "tax"]))
        x, y = ([float(row[name]) for row in rows] for name in ("rent", "tax"))
        a, b = ([float(row[name]) for row in found] for name in ("rent", "tax"))
        assert covariance(a, b) == pytest.approx(covariance(x, y), rel=0.1)
        assert pvariance(a) == pytest.approx(pvariance(x), rel=0.1)


@pytest.mark.parametrize(
    ("ladder", "message"),
    [
        ([0.2, 0.1, 0.5], "the levels of a ladder rise"),
        ([0.5, 0.5], "the levels of a ladder rise"),
        ([0.1, 0.2], "is no level of the ladder"),
        ([0, 0.5], "must be > 0"),
        (["a", 0.5], "ladder"),
        ([0.5, 11], "must be <= 10"),
        (0.5, "ladder"),
    ],
)
def test_a_wrong_ladder_is_refused(ladder: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        policy([{"additive_noise": {"columns": ["rent"], "alpha": 0.5, "ladder": ladder}}])
