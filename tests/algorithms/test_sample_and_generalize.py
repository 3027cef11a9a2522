"""Sample and generalize: the paper's examples, its algorithm in plain Python, and what must hold for any table."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import measure
from recoded import opened, policy, released

from sqlanon.algorithms import sample_and_generalize
from sqlanon.algorithms.sample_and_generalize import ladder, left_domains
from sqlanon.errors import PolicyError
from sqlanon.families import plugin
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.solution import Solution
from sqlanon.policy import Policy, Source
from sqlanon.sqltree.tree import bind

AGES = [str(age) for age in range(8)]
ABOVE = {age: [f"{int(age) // 2 * 2}-{int(age) // 2 * 2 + 1}", "0-3" if age < "4" else "4-7", "*"] for age in AGES}
AGE_TREE = {"0-3": {"0-1": ["0", "1"], "2-3": ["2", "3"]}, "4-7": {"4-5": ["4", "5"], "6-7": ["6", "7"]}}
TREES = {"age": {"tree": {"tree": {"*": AGE_TREE}}}, "sex": {"tree": {"tree": {"*": ["f", "m"]}}}}
ROLES = {"age": "quasi_identifier", "sex": "quasi_identifier", "s": "sensitive"}
PATHS = {"age": {age: [age, *ABOVE[age]] for age in AGES}, "sex": {sex: [sex, "*"] for sex in "fm"}}
Rows = list[tuple[str, str, str]]


def asked(*models: dict[str, Any], limit: float = 1.0, **more: Any) -> Policy:
    return policy(ROLES, TREES, list(models), suppression_limit=limit, **more)


def filled(database: Database, rows: Rows) -> None:
    database.table(
        "t", {"age": "TEXT", "sex": "TEXT", "s": "TEXT"}, [dict(zip(ROLES, row, strict=True)) for row in rows]
    )


def drawn(
    database: Database, wanted: Policy, key: str = "of the owner", **params: Any
) -> tuple[list[dict[str, Any]], Solution]:
    posed = opened(database, wanted, brings=sample_and_generalize.TRAITS.brings, seed=key)
    try:
        found = sample_and_generalize.run(posed, sample_and_generalize.Params(**params))
        return released(database, posed, found), found
    finally:
        posed.close()


# The algorithm in plain Python ----------------------------------------------------------------------------------------


def at_or_below(rows: list[dict[str, Any]], name: str) -> dict[str, float]:
    """The share of the rows whose label is a node or lies below it."""
    counted: Counter[str] = Counter()
    for row in rows:
        path = PATHS[name][row[f"was_{name}"]]
        counted.update(path[path.index(row[name]) :])
    return {label: count / len(rows) for label, count in counted.items()}


def unsafe(rows: list[dict[str, Any]], beta: float) -> list[bool]:
    """Record by record: is the observed confidence above the expected one?"""
    shares = {name: at_or_below(rows, name) for name in PATHS}
    values = Counter(row["s"] for row in rows)
    classes = Counter((row["age"], row["sex"]) for row in rows)
    cells = Counter((row["age"], row["sex"], row["s"]) for row in rows)
    found = []
    for row in rows:
        chance = shares["age"][row["age"]] * shares["sex"][row["sex"]] * values[row["s"]] / len(rows)
        expected = 1 - (1 - chance) ** len(rows)
        observed = beta * cells[row["age"], row["sex"], row["s"]] / classes[row["age"], row["sex"]]
        found.append(observed > expected + 1e-12)
    return found


def by_the_book(rows: Rows, beta: float, accepted: float) -> Counter[tuple[str, ...]]:
    state = [{"was_age": a, "was_sex": b, "s": c, "age": a, "sex": b} for a, b, c in rows]
    while state and any(broken := unsafe(state, beta)):
        kept = []
        for row, bad in zip(state, broken, strict=True):
            at = {name: PATHS[name][row[f"was_{name}"]].index(row[name]) for name in PATHS}
            if bad:
                left = {"age": [15, 7, 3, 1][at["age"]], "sex": [3, 1][at["sex"]]}
                name = max(left, key=lambda name: (left[name], name == "age"))
                if left[name] == 1:
                    continue
                at[name] += 1
                row = row | {name: PATHS[name][row[f"was_{name}"]][at[name]]}
            if (at["age"] / 3 + at["sex"]) / 2 <= accepted + 1e-9:
                kept.append(row)
        state = kept
    return Counter((row["was_age"], row["was_sex"], row["s"], row["age"], row["sex"]) for row in state)


def same_as_by_the_book(database: Database, rows: Rows, accepted: float) -> None:
    filled(database, rows)
    truth = by_the_book(rows, 1, accepted)
    wanted = asked({"expected_confidence": {"beta": 1}})
    if not truth:
        with pytest.raises(Infeasible):
            drawn(database, wanted, rate=1, distortion=accepted)
        return
    found, solution = drawn(database, wanted, rate=1, distortion=accepted)
    assert Counter((row["was_age"], row["was_sex"], row["s"], row["age"], row["sex"]) for row in found) == truth
    assert solution.suppressed == len(rows) - len(found)


ROWS = st.lists(
    st.tuples(st.sampled_from(AGES), st.sampled_from("fm"), st.sampled_from(["flu", "flu", "hiv"])),
    min_size=1,
    max_size=60,
)


@pytest.mark.full
@settings(max_examples=examples(15))
@given(rows=ROWS, accepted=st.sampled_from([0.2, 0.6, 1.0]))
def test_by_the_book(duck: Database, rows: Rows, accepted: float) -> None:
    same_as_by_the_book(duck, rows, accepted)


MANY: Rows = [(AGES[i * i % 8], "fm"[i % 3 == 0], "flu" if i % 5 else "hiv") for i in range(120)]


@pytest.mark.full
def test_by_the_book_on_both_engines(database: Database) -> None:
    same_as_by_the_book(database, [*MANY, ("7", "m", "hiv")], 0.7)


def test_the_check_agrees(database: Database) -> None:
    """What the release as a table says, read by the check alone."""
    filled(database, MANY)
    wanted = asked({"expected_confidence": {"beta": 0.9}})
    found, _ = drawn(database, wanted, rate=0.9, distortion=0.9)
    database.table(
        "r", {"age": "TEXT", "sex": "TEXT", "s": "TEXT"}, [{name: row[name] for name in ROLES} for row in found]
    )
    assert len({row["age"] for row in found}) > 1
    (measured,) = measure(database.engine, wanted, Source(table="r"))
    assert measured and not any(broken for _, broken in measured.values())
    public = {name: at_or_below(found, name) for name in PATHS}
    truth = brute.expected_confidence(found, ["age", "sex"], "s", beta=0.9, public=public)
    assert {key: value for key, (value, _) in measured.items()} == pytest.approx(truth, abs=1e-9)


def test_announced_probabilities(duck: Database) -> None:
    """Announced probabilities replace the shares; a label that nobody announced is never expected."""
    filled(duck, MANY)
    public = {"age": {"*": 1.0, "0-3": 0.5}, "sex": {"f": 0.5, "m": 0.5, "*": 1.0}}
    conditional = [{"when": {"age": "*"}, "value": "hiv", "probability": 1.0}]
    model = {"expected_confidence": {"beta": 1, "public": public, "conditional": conditional}}
    found, _ = drawn(duck, asked(model), rate=1, distortion=1)
    assert {row["age"] for row in found} <= {"*", "0-3"}
    known = {name: {label: public[name].get(label, 0) for label in labels} for name, labels in public.items()}
    broken = brute.broken_expected_confidence(
        [row for row in found if row["age"] != "*"] or found, ["age", "sex"], "s", beta=1, public=known
    )
    assert not broken


def test_other_models_judge_classes(duck: Database) -> None:
    filled(duck, MANY)
    models = [{"confidence_bounding": {"value": "hiv", "h": 0.3}}, {"k_anonymity": {"k": 4}}]
    found, _ = drawn(duck, asked(*models), rate=1, distortion=0.9)
    assert not brute.broken_k_anonymity(found, ["age", "sex"], k=4)
    assert not brute.broken_confidence_bounding(found, ["age", "sex"], "s", value="hiv", h=0.3)


# The draw -------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_draw(database: Database) -> None:
    filled(database, [(AGES[i], "f", "flu") for i in range(8) for _ in range(2 * i + 1)])
    wanted = asked({"expected_confidence": {"beta": 1}})

    def sample(seed: str, key: str) -> str:
        return str(sorted(map(str, drawn(database, wanted, key, rate=0.6, distortion=1, seed=seed)[0])))

    assert sample("a", "one") == sample("a", "one")
    # Two draws of few rows may happen to be the same.
    assert len({sample(seed, "one") for seed in "abcd"}) > 1
    assert len({sample("a", key) for key in ("one", "two", "three", "four")}) > 1
    with pytest.raises(PolicyError, match="samples need a key"):
        drawn(database, wanted, key="", rate=0.6, distortion=1, seed="a")
    assert len(drawn(database, wanted, key="", rate=1, distortion=1)[0]) == 64  # nothing is drawn


@pytest.mark.full
def test_each_row_is_drawn_at_the_rate(duck: Database) -> None:
    """Over many draws every cell is drawn in proportion, and the sample has the size that it should have."""
    duck.table("cells", {"cell": "BIGINT", "n": "BIGINT"}, [{"cell": i, "n": i % 5 + 1} for i in range(30)])
    sql, rows, times = plugin("recoding", "sampled").sql, 90, 400
    seen: Counter[int] = Counter()
    for place in range(times):
        tree = bind(sql, {"rate": 0.73, "start": (place + 0.5) / times, "seed": str(place)}, {})
        found = duck.engine.query(tree)
        assert sum(n for _, _, n in found) in (65, 66)  # of .73 * 90 = 65.7
        for cell, step, n in found:
            assert step == 0 and 1 <= n <= cell % 5 + 1
            seen[cell] += n
    assert sum(seen.values()) / times == pytest.approx(0.73 * rows, abs=0.1)
    for cell in range(30):
        # A cell gets the whole number below or above its share: its mean strays by .5 / sqrt(times) at most.
        assert seen[cell] / times == pytest.approx(0.73 * (cell % 5 + 1), abs=4 * 0.5 / math.sqrt(times)), cell


# The paper's examples -------------------------------------------------------------------------------------------------


def test_left_domains(database: Database) -> None:
    """A label of the second of four levels has 7 nodes on its level and above, a sex has 3."""
    filled(database, MANY)
    posed = opened(database, asked({"k_anonymity": {"k": 2}}))
    assert left_domains(posed) == [[15, 7, 3, 1], [3, 1]]
    posed.close()


def test_distortion() -> None:
    """(25, male) shown as (20-40, any) in trees of depth 4 and 1 is distorted by .625."""
    left = [[100, 90, 80, 70, 1], [95, 1]]
    assert ladder(left, {}, 0.625, ["age", "sex"])[-1] == (1, 1)
    assert ladder(left, {}, 0.624, ["age", "sex"])[-1] == (1, 0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"minimum": {"agee": 1}}, "no quasi-identifier"),
        ({"minimum": {"age": 4}}, "levels 0 to 3"),
        ({"minimum": {"age": -1}}, "levels 0 to 3"),
        ({"minimum": {"age": 3}, "distortion": 0.2}, "more than is accepted"),
        ({"rate": 0.95}, "lower rate"),
    ],
)
def test_params_that_make_no_sense(duck: Database, params: dict[str, Any], message: str) -> None:
    filled(duck, MANY)
    with pytest.raises(PolicyError, match=message):
        drawn(duck, asked({"expected_confidence": {"beta": 0.9}}), **{"rate": 0.9, **params})


def test_rows_that_are_not_drawn_count_as_suppressed(duck: Database) -> None:
    filled(duck, MANY)
    with pytest.raises(PolicyError, match="the policy allows 6"):
        drawn(duck, asked({"expected_confidence": {"beta": 0.9}}, limit=0.05), rate=0.9, distortion=1)


def test_only_who_brings_the_probabilities_reaches_the_model(duck: Database) -> None:
    filled(duck, MANY)
    with pytest.raises(PolicyError, match="cannot reach expected_confidence"):
        opened(duck, asked({"expected_confidence": {"beta": 0.9}}))
