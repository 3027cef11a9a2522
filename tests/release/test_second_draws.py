"""Two releases of the same rows: no attack that solves both together does better than on draws that are independent."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
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
from sqlanon.release import publish
from sqlanon.release.plan_refresh import plan_refresh
from sqlanon.release.retire_release import retire

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


# ---- the record of releases


def noisy(alpha: float, release: str, **more: Any) -> Any:
    changes = {key: more.pop(key) for key in ("source", "columns", "person") if key in more}
    use = {"additive_noise": {"columns": ["income"], "alpha": alpha, **more}}
    given: dict[str, Any] = {"release": {"path" if "/" in release else "table": release}}
    return policy([use], **given, **changes)


def put(database: Database, asked: Any, secret: str = KEY) -> Any:
    return publish(asked, database.engine, secret=secret, workload=False)


def refused(database: Database, asked: Any, secret: str = KEY) -> PolicyError:
    tables = sorted(database.engine.tables())
    told = plan_refresh(asked, database.engine, secret=secret).refused
    with pytest.raises(PolicyError) as error:
        put(database, asked, secret)
    assert told is not None and str(told) == str(error.value)
    assert sorted(database.engine.tables()) == tables
    return error.value


@pytest.mark.full
def test_a_second_level_is_refused_and_a_ladder_is_not(database: Database) -> None:
    with_people(database, people(120, nulls=False))
    done = put(database, noisy(0.1, "one"))
    assert done.document["draws"]["columns"] == {"income": ['["additive_noise",{"from":0.0,"to":0.1}]']}
    assert KEY not in json.dumps(done.document, default=str)
    error = refused(database, noisy(0.5, "two"))
    assert "'income' was drawn with other parameters in the release 'one' of the same rows" in str(error)
    assert "'ladder: [0.1, 0.5]'" in str(error.hint) and "retire that release" in str(error.hint)
    assert "alpha" in str(refused(database, noisy(0.05, "two")).hint)
    refused(database, noisy(0.5, "one"))  # whoever read the first version has it
    put(database, noisy(0.1, "two"))
    first, second = (sorted(database.fetch(f"SELECT income FROM {name}")) for name in ("one", "two"))
    assert first == second
    put(database, noisy(0.5, "three", ladder=[0.1, 0.5]))
    put(database, noisy(2, "four", ladder=[0.1, 0.5, 2]))
    refused(database, noisy(0.5, "five", ladder=[0.1, 0.2, 0.5]))
    refused(database, noisy(0.5, "five", ladder=[0.5, 2]))
    put(database, noisy(0.1, "five", ladder=[0.1, 0.2, 0.5]))


def test_another_key_is_another_draw(database: Database) -> None:
    with_people(database, people(120, nulls=False))
    put(database, noisy(0.1, "one"))
    error = refused(database, noisy(0.1, "two"), OTHER_KEY)
    assert "under another key" in str(error) and "SQLANON_KEY" in str(error.hint)


@pytest.mark.full
def test_after_a_release_is_retired_another_one_may_take_its_place(database: Database) -> None:
    with_people(database, people(120, nulls=False))
    put(database, noisy(0.1, "one"))
    put(database, noisy(0.1, "one"))
    refused(database, noisy(0.5, "two"))
    retire(noisy(0.1, "one"), database.engine)
    put(database, noisy(0.5, "two"))
    refused(database, noisy(0.1, "one"))


@pytest.mark.full
def test_the_same_rows_are_found_through_views_and_queries(database: Database) -> None:
    with_people(database, people(120, nulls=False))
    database.run("CREATE VIEW seen AS SELECT * FROM people WHERE id < 60")
    database.run("CREATE VIEW further AS SELECT * FROM seen")
    put(database, noisy(0.1, "one", source={"view": "further"}))
    for source in (
        {"table": "people"},
        {"view": "seen"},
        {"query": "SELECT * FROM people WHERE id > 50"},
        {"query": "WITH a AS (SELECT * FROM people) SELECT * FROM a"},
    ):
        assert "of the same rows" in str(refused(database, noisy(0.5, "two", source=source)))
    # Nobody is in both.
    put(database, noisy(0.5, "two", source={"query": "SELECT * FROM people WHERE id >= 60"}))
    # Another table that happens to have the same numbers.
    load(database, "others", transforming.TYPES, people(80, seed=2, nulls=False))
    put(database, noisy(0.2, "three", source={"table": "others"}))
    # Without an identity nobody knows.
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"age": "quasi_identifier"}
    far = {"query": "SELECT * FROM people WHERE id >= 60"}
    refused(database, noisy(0.2, "four", source=far, columns=roles))
    for view in ("further", "seen"):
        database.run(f"DROP VIEW {view}")


OTHERS = [name for name in transforming.TYPES if name != "income"]


def view_of(income: str, table: str = "people") -> str:
    """A view of the people whose incomes agree with none of the table, so that only its definition tells of it."""
    return f"CREATE VIEW hidden AS SELECT {', '.join(OTHERS)}, {income} AS income FROM {table}"


# DuckDB keeps a lambda as text that the parser cannot read, and a function after FROM names no table.
UNREADABLE = {
    "lambda": (view_of("list_sum(list_transform([income], lambda x: x + 1))"), "cannot read the definition of the"),
    "macro": (view_of("income + 1", "everybody()"), "the view 'hidden' calls everybody()"),
    "query": (view_of("income + 1", "query('FROM people')"), "the view 'hidden' calls query()"),
    "query_table": (view_of("income + 1", "query_table('people')"), "the view 'hidden' calls query_table()"),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("what", sorted(UNREADABLE))
def test_a_view_that_cannot_be_read_may_hold_the_same_rows(duck: Database, what: str) -> None:
    made, reason = UNREADABLE[what]
    with_people(duck, people(120, nulls=False))
    duck.run("CREATE MACRO everybody() AS TABLE FROM people")
    duck.run(made)
    duck.run("CREATE VIEW outer_one AS FROM hidden")
    put(duck, noisy(0.1, "one"))
    for name in ("hidden", "outer_one"):
        error = refused(duck, noisy(0.5, "two", source={"view": name}))
        assert "'income' was drawn with other parameters in the release 'one'" in str(error)
        assert f"of what may be the same rows ({'sqlanon ' if what == 'lambda' else ''}{reason}" in str(error)
        assert ("without syntax of its engine" if what == "lambda" else "name the tables") in str(error.hint)
        assert "retire that release" in str(error.hint)
    # The same in the other direction, for samples, and for noise at another scale.
    sampled = [{"sampling": {"share": 0.3}}]
    put(duck, policy(sampled, source={"view": "hidden"}, release={"table": "three"}))
    asked = policy(sampled, release={"table": "four"})
    assert reason in str(refused(duck, asked, OTHER_KEY))
    wider = {"query": "SELECT * REPLACE (5 * income AS income) FROM hidden"}
    error = refused(duck, noisy(0.1, "five", source=wider))
    assert "spreads more or less" in str(error) and reason in str(error)
    put(duck, noisy(0.1, "six", source={"view": "hidden"}))  # the same draws are no reason to refuse


def test_a_view_that_cannot_be_read_of_other_persons_goes_on(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    put(duck, noisy(0.1, "one"))
    far = [{**row, "id": row["id"] + 1000} for row in people(120, seed=2, nulls=False)]
    load(duck, "others", transforming.TYPES, far)
    duck.run(view_of("list_transform([income], lambda x: x + 1)[1]", "others"))
    put(duck, noisy(0.5, "two", source={"view": "hidden"}))


POSTGRES = {
    "a form of its own": (view_of("income + 1 + length(xmlserialize(CONTENT NULL::xml AS text))"), None),
    "a materialized view": (view_of("income + 1").replace("VIEW", "MATERIALIZED VIEW"), None),
    "a function": (view_of("income + 1", "everybody()"), "calls everybody()"),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(POSTGRES))
def test_views_of_postgres_are_found_in_its_own_record(postgres: Database, what: str) -> None:
    made, reason = POSTGRES[what]
    with_people(postgres, people(120, nulls=False))
    listed = ", ".join(f"{name} {kind}" for name, kind in transforming.TYPES.items())
    postgres.run(f"CREATE FUNCTION everybody() RETURNS TABLE ({listed}) LANGUAGE sql AS 'SELECT * FROM people'")
    postgres.run(made)
    put(postgres, noisy(0.1, "one"))
    error = refused(postgres, noisy(0.5, "two", source={"query": "SELECT * FROM hidden"}))
    assert "'income' was drawn with other parameters in the release 'one'" in str(error)
    assert ("of the same rows" if reason is None else reason) in str(error)
    error = refused(postgres, noisy(0.5, "two", source={"query": "SELECT * FROM everybody()"}))
    assert "calls everybody()" in str(error)


def test_a_part_of_a_table_is_the_same_rows(postgres: Database) -> None:
    """The rows of a partition are rows of its table, whatever a query makes of the values."""
    with_people(postgres, people(120, nulls=False))
    postgres.run("CREATE TABLE whole (LIKE people) PARTITION BY RANGE (id)")
    postgres.run("CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (1000)")
    postgres.run("INSERT INTO whole SELECT * FROM people")
    postgres.run("DROP TABLE people")
    put(postgres, noisy(0.1, "one", source={"table": "whole"}))
    changed_rows = {"query": f"SELECT {', '.join(OTHERS)}, income + 1 AS income FROM part"}
    assert "of the same rows" in str(refused(postgres, noisy(0.5, "two", source=changed_rows)))


@pytest.mark.full
def test_rows_whose_source_is_gone_may_be_the_same(duck: Database, tmp_path: Path) -> None:
    """A table that was renamed, or a file that was moved, can no longer be compared."""
    with_people(duck, people(120, nulls=False))
    duck.run(f"COPY people TO '{tmp_path}/people.parquet'")
    put(duck, noisy(0.1, "one"))
    duck.run("ALTER TABLE people RENAME TO persons")
    persons = {"table": "persons"}
    error = refused(duck, noisy(0.5, "two", source=persons))
    assert "of what may be the same rows ('people' is not there any more)" in str(error)
    assert "give back the table or file" in str(error.hint)
    put(duck, noisy(0.1, "two", source=persons))  # the same draws
    duck.run("ALTER TABLE persons RENAME TO people")
    put(duck, noisy(0.1, "three", source={"path": f"{tmp_path}/people.parquet"}))
    (tmp_path / "people.parquet").rename(tmp_path / "moved.parquet")
    put(duck, policy([], source={"path": f"{tmp_path}/moved.parquet"}, release={"table": "four"}))  # nothing is drawn


@pytest.mark.full
def test_copies_and_other_names_are_the_same_rows(duck: Database, tmp_path: Path) -> None:
    with_people(duck, people(120, nulls=False))
    put(duck, noisy(0.1, "one"))
    duck.run("CREATE SCHEMA far")
    duck.run("CREATE TABLE far.people AS FROM people")
    duck.run("CREATE TABLE copied AS FROM people WHERE id >= 20 ORDER BY income")
    duck.run("UPDATE copied SET income = income + 1 WHERE id % 4 = 0")
    duck.run("CREATE MACRO everybody() AS TABLE FROM people")
    for ending in ("csv", "parquet"):
        duck.run(f"COPY people TO '{tmp_path}/copied.{ending}'")
    for source in (
        {"table": "far.people"},
        {"table": "copied"},
        {"query": "SELECT * FROM everybody()"},
        {"path": f"{tmp_path}/copied.csv"},
        {"path": f"{tmp_path}/copied.parquet"},
        {"query": f"SELECT * FROM read_csv('{tmp_path}/copied.csv')"},
    ):
        assert "with other parameters" in str(refused(duck, noisy(0.5, "two", source=source))), source
        assert "under another key" in str(refused(duck, noisy(0.1, "two", source=source), OTHER_KEY)), source
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"id": "identifier", "age": "quasi_identifier"}
    renamed = {("salary" if name == "income" else name): role for name, role in roles.items()}
    for written in ("people", "copied"):
        source = {"query": f"SELECT * EXCLUDE (income), income AS salary FROM {written}"}
        use = [{"additive_noise": {"columns": ["salary"], "alpha": 0.1}}]
        error = refused(duck, policy(use, source=source, columns=renamed, release={"table": "two"}))
        assert "'salary', which holds the values of 'income', was drawn under another name" in str(error)
    # Other columns of the same persons are other values, and so are those of other persons.
    put(duck, policy([{"additive_noise": {"columns": ["tax"], "alpha": 0.5}}], source={"table": "copied"},
                     release={"table": "two"}))  # fmt: skip
    duck.run("CREATE TABLE others AS SELECT * REPLACE (119 - id AS id) FROM people")
    put(duck, noisy(0.5, "three", source={"table": "others"}))


def test_rows_without_an_identity_are_the_same_if_they_are_equal(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"age": "quasi_identifier"}
    put(duck, noisy(0.1, "one", columns=roles))
    duck.run("CREATE TABLE copied AS FROM people WHERE id >= 20")
    assert "'income'" in str(refused(duck, noisy(0.5, "two", columns=roles, source={"table": "copied"})))
    load(duck, "others", transforming.TYPES, people(120, seed=2, nulls=False))
    put(duck, noisy(0.5, "two", columns=roles, source={"table": "others"}))


IDENTITIES = {
    "more identifiers": {"columns": {"job": "identifier"}},
    "another type": {"source": {"query": "SELECT * REPLACE (CAST(id AS VARCHAR) AS id) FROM people"}},
    "rows that share it": {"source": {"query": "FROM people UNION ALL (FROM people WHERE id = 3)"}},
}


@pytest.mark.parametrize("what", sorted(IDENTITIES))
def test_another_identity_is_another_draw(duck: Database, what: str) -> None:
    """The parameters and the key are the same, and yet the second release averages the noise of the first."""
    rows = people(400, nulls=False)
    with_people(duck, rows)
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"id": "identifier", "age": "quasi_identifier"}
    changes = dict(IDENTITIES[what])
    changes["columns"] = roles | changes.get("columns", {})
    use = [{"additive_noise": {"columns": ["rent"], "alpha": 0.5}}]
    found = [{row["id"]: row["rent"] for row in changed(duck, use, **more)} for more in ({"columns": roles}, changes)]
    noise = [[one.get(row["id"], one.get(str(row["id"]))) - row["rent"] for row in rows] for one in found]
    assert abs(correlation(*noise)) < 4.5 / math.sqrt(400)
    put(duck, noisy(0.1, "one", columns=roles))
    error = refused(duck, noisy(0.1, "two", **changes))
    assert "'income' was drawn by another identity in the release 'one'" in str(error)
    assert "identify rows by id (integer), as that release does" in str(error.hint)


@pytest.mark.full
def test_the_order_of_identifiers_and_of_columns_is_part_of_an_identity(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"age": "quasi_identifier"}
    both = roles | {"id": "identifier", "job": "identifier"}
    put(duck, noisy(0.1, "one", columns=both))
    turned = {"job": "identifier"} | {name: role for name, role in both.items() if name != "job"}
    assert "by another identity" in str(refused(duck, noisy(0.1, "two", columns=turned)))
    load(duck, "others", transforming.TYPES, people(120, seed=2, nulls=False))
    put(duck, noisy(0.1, "two", columns=roles, source={"table": "others"}))
    for read in ("SELECT town, * EXCLUDE (town) FROM others", "SELECT * FROM others"):
        asked = noisy(0.1, "three", columns=roles, source={"query": read})
        if read.startswith("SELECT town"):
            assert "by another identity" in str(refused(duck, asked))
        else:
            put(duck, asked)


@pytest.mark.full
def test_noise_at_another_scale_is_another_draw(database: Database) -> None:
    """The scale follows the rows: a part of them, with the same policy, would have noise of its own to average."""
    with_people(database, people(200, nulls=False))
    done = put(database, noisy(0.1, "one"))
    ((step, _),) = done.document["draws"]["scales"]["income"]
    part = {"query": "SELECT * FROM people WHERE income < 25000"}
    error = refused(database, noisy(0.1, "two", source=part))
    assert "'income' spreads more or less than in the release 'one' of the same rows" in str(error)
    kept = {"income": float(f"{2 ** (step / 32):.6g}")}
    assert f"write 'spread: {{income: {kept['income']:g}}}'" in str(error.hint)
    put(database, noisy(0.1, "two", source=part, spread=kept))
    first, second = (
        {row[:-1]: row[-1] for row in database.fetch(f"SELECT rent, tax, income FROM {name}")}
        for name in ("one", "two")
    )
    assert len(second) > 50 and all(first.get(key, value) == value for key, value in second.items())
    put(database, noisy(0.1, "one", spread=kept))
    # Rows that come do not matter as long as the scale stays.
    database.run("INSERT INTO people SELECT id + 1000, age, income, rent, tax, born, job, smoker, town FROM people")
    put(database, noisy(0.1, "one"))


def test_a_sample_under_another_key_shows_other_persons(duck: Database) -> None:
    with_people(duck, people(200, nulls=False))

    def sampled(share: float, release: str, **changes: Any) -> Any:
        return policy([{"sampling": {"share": share}}], release={"table": release}, **changes)

    put(duck, sampled(0.3, "one"))
    put(duck, sampled(0.5, "two"))
    assert "the sample was drawn under another key" in str(refused(duck, sampled(0.3, "three"), OTHER_KEY))
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"age": "quasi_identifier"}
    assert "the sample was drawn by another identity" in str(refused(duck, sampled(0.3, "three", columns=roles)))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"spread": {"tax": 3}}, "'spread' names 'tax', which gets no noise"),
        ({"spread": {"income": 0}}, "must be > 0"),
        ({"spread": {"income": 3}, "kind": "linear"}, "'spread' needs kind: uncorrelated"),
    ],
)
def test_a_wrong_spread_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        policy([{"additive_noise": {"columns": ["income"], "alpha": 0.5, **more}}])


@pytest.mark.full
def test_other_columns_and_other_methods(duck: Database) -> None:
    with_people(duck, people(200, nulls=False))
    put(duck, noisy(0.1, "one"))
    put(duck, policy([{"rank_swap": {"columns": ["rent"], "percent": 20}}], release={"table": "two"}))
    swapped = [{"rank_swap": {"columns": ["income"], "percent": 20}}]
    assert "'income'" in str(refused(duck, policy(swapped, release={"table": "three"})))
    refused(duck, policy([{"rank_swap": {"columns": ["rent"], "percent": 30}}], release={"table": "three"}))
    noise = {"additive_noise": {"columns": ["income"], "alpha": 0.1}}
    # More draws on top of those, other rows less, and what is no draw tell nothing new.
    put(duck, policy([noise, *swapped], release={"table": "three"}))
    put(duck, policy([noise, {"sampling": {"share": 0.5}}], release={"table": "four"}))
    put(duck, policy([noise, {"rounding": {"columns": ["income"], "base": 1000}}], release={"table": "five"}))
    refused(duck, policy([{"rounding": {"columns": ["income"], "base": 1000}}, noise], release={"table": "six"}))
    masked = [{"masking": {"columns": ["town"], "format": "name", "keep_first": 1}}]
    put(duck, policy(masked, release={"table": "six"}))
    masked[0]["masking"] = {"columns": ["town"], "format": "name", "keep_last": 1}
    refused(duck, policy(masked, release={"table": "seven"}))


def test_a_release_of_an_older_sqlanon_drew_otherwise(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    put(duck, noisy(0.1, "one"))
    ((text,),) = duck.fetch("SELECT evidence FROM sqlanon_releases")
    document = json.loads(text)
    del document["draws"]
    duck.engine._connection.execute(  # type: ignore[attr-defined]
        "UPDATE sqlanon_releases SET evidence = ?", [json.dumps(document)]
    )
    assert "by an older sqlanon" in str(refused(duck, noisy(0.1, "two")))
    put(duck, policy([], release={"table": "three"}))


@pytest.mark.full
def test_files_are_compared_with_the_files_beside_them(duck: Database, tmp_path: Path) -> None:
    with_people(duck, people(120, nulls=False))
    put(duck, noisy(0.5, f"{tmp_path}/one.parquet", ladder=[0.1, 0.5]))
    refused(duck, noisy(0.2, f"{tmp_path}/two.csv"))
    put(duck, noisy(0.1, f"{tmp_path}/one.parquet"))
    # What the first version of the file was is known still.
    refused(duck, noisy(0.5, f"{tmp_path}/one.parquet", ladder=[0.1, 0.3, 0.5]))
    refused(duck, noisy(0.5, f"{tmp_path}/folder/"))
    put(duck, noisy(0.1, f"{tmp_path}/folder/"))
    put(duck, noisy(0.1, f"{tmp_path}/two.csv"))
    put(duck, noisy(0.1, "one"))
    refused(duck, noisy(0.2, f"{tmp_path}/elsewhere/"))
    (tmp_path / "far").mkdir()
    refused(duck, noisy(0.2, f"{tmp_path}/far/one.parquet"))  # the record of the database says so


def sampled_people(release: str, **params: Any) -> Any:
    roles = {"id": "identifier", "age": "quasi_identifier", "disease": "sensitive"}
    return policy(
        [], columns=roles, models=[{"expected_confidence": {"beta": 0.5}}], release={"table": release},
        algorithm={"sample_and_generalize": {"rate": 0.5, "distortion": 1, **params}}, suppression_limit=1.0,
    )  # fmt: skip


@pytest.mark.full
def test_who_reads_the_policy_does_not_know_who_was_sampled(database: Database) -> None:
    """The sample comes from the key. Another key makes another sample, which shows more persons, and is refused."""
    rows = [{"id": i, "age": i % 4, "disease": "abcdefgh"[i // 4 % 8]} for i in range(160)]
    load(database, "people", {"id": "BIGINT", "age": "INTEGER", "disease": "VARCHAR"}, rows)
    with pytest.raises(PolicyError, match="samples need a key"):
        publish(sampled_people("one"), database.engine, workload=False)
    shown = []
    for key in (KEY, OTHER_KEY):
        done = put(database, sampled_people("one", seed="public"), key)
        assert KEY not in json.dumps(done.document, default=str)
        shown.append(sorted(database.fetch("SELECT age, disease FROM one")))
        assert "under another key" in str(refused(database, sampled_people("two", seed="public"), KEY + key))
        assert "with other parameters" in str(refused(database, sampled_people("two", seed="other"), key))
        put(database, sampled_people("two", seed="public"), key)
        assert sorted(database.fetch("SELECT age, disease FROM two")) == shown[-1]
        for name in ("one", "two"):
            retire(sampled_people(name, seed="public"), database.engine)
    assert shown[0] != shown[1] and len(shown[0]) == len(shown[1])


def test_a_sample_that_was_drawn_without_the_key_is_another_one(duck: Database) -> None:
    """Earlier versions drew from the seed alone, whatever the key was."""
    rows = [{"id": i, "age": i % 4, "disease": "abcdefgh"[i // 4 % 8]} for i in range(160)]
    load(duck, "people", {"id": "BIGINT", "age": "INTEGER", "disease": "VARCHAR"}, rows)
    put(duck, sampled_people("one"))
    ((text,),) = duck.fetch("SELECT evidence FROM sqlanon_releases")
    assert text.count(',\\"key\\"]') == 1
    duck.engine._connection.execute(  # type: ignore[attr-defined]
        "UPDATE sqlanon_releases SET evidence = ?", [text.replace(',\\"key\\"]', "]")]
    )
    assert "with other parameters" in str(refused(duck, sampled_people("two")))


def test_groups_that_are_drawn_twice_are_refused(duck: Database) -> None:
    """A person is in a group of each release: what both groups have in common is what the person has."""
    rows = [{"id": i, "age": i % 7, "disease": "abcdefgh"[i % 8]} for i in range(160)]
    load(duck, "people", {"id": "BIGINT", "age": "INTEGER", "disease": "VARCHAR"}, rows)
    roles = {"id": "identifier", "age": "quasi_identifier", "disease": "sensitive"}

    def grouped(l: int, release: str, name: str = "anatomy") -> Any:  # noqa: E741
        return policy(
            [], columns=roles, models=[{"distinct_l_diversity": {"l": l}}], algorithm={name: {"l": l}},
            release={"table": release}, suppression_limit=0.0,
        )  # fmt: skip

    put(duck, grouped(2, "one"))
    put(duck, grouped(2, "one"))
    assert "'disease' was drawn with other parameters" in str(refused(duck, grouped(4, "two")))
