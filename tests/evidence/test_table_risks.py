"""Risks of the whole table as requirements: worked examples, the search beside all nodes, and what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from typing import Any

import pandas as pd
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.checks import check
from sqlanon.evidence.risk.estimates import zayatz_share
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish

LEVELS = {"age": (1, 10, 20, None), "sex": (1, None)}


def policy(models: list[Any], **more: Any) -> Policy:
    written = {
        "source": {"table": "t"},
        "columns": {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"},
        "hierarchies": {
            "age": {"intervals": {"widths": [10, 20]}},
            "sex": {"tree": {"tree": {"*": ["f", "m"]}}},
        },
        "models": models,
        "release": {"table": "r"},
    }
    return parse(json.dumps(written | more))


def fill(database: Database, rows: list[tuple[int, str]]) -> None:
    listed = [{"age": age, "sex": sex, "disease": ("flu", "hiv")[place % 2]} for place, (age, sex) in enumerate(rows)]
    database.table("t", {"age": "INTEGER", "sex": "TEXT", "disease": "TEXT"}, listed)


def sizes(*counts: int) -> list[tuple[int, str]]:
    """One class of each size."""
    return [(20 + place, "f") for place, count in enumerate(counts) for _ in range(count)]


# ---- worked examples: classes of 1, 1, 3 and 5 records


@pytest.mark.parametrize(
    ("model", "measured", "broken"),
    [
        # 4 classes, 10 records; without the two uniques 2 classes, 8 records.
        ({"average_risk": {"risk": 0.4}}, 0.4, 0),
        ({"average_risk": {"risk": 0.39}}, 0.4, 2),
        ({"average_risk": {"risk": 0.24}}, 0.4, 3),
        # 5 of 10 records have a risk above 0.3: those of classes of 1, 1 and 3.
        ({"record_risk": {"risk": 0.3, "share": 0.5}}, 0.5, 0),
        ({"record_risk": {"risk": 0.3, "share": 0.4}}, 0.5, 3),
        ({"record_risk": {"risk": 0.2}}, 0.5, 3),
        ({"sample_uniqueness": {"share": 0.2}}, 0.2, 0),
        ({"sample_uniqueness": {"share": 0.1}}, 0.2, 2),
        # Half of the population is drawn: 2 * 2 / (2 + 3 / 4 + 5 / 16) / 10.
        ({"population_uniqueness": {"share": 0.14, "sampling_fraction": 0.5}}, 4 / 3.0625 / 10, 0),
        ({"population_uniqueness": {"share": 0.2, "sampling_fraction": 1}}, 0.2, 0),
        ({"population_uniqueness": {"share": 0.13, "sampling_fraction": 0.5}}, 4 / 3.0625 / 10, 2),
    ],
)
def test_worked_examples(database: Database, model: dict[str, Any], measured: float, broken: int) -> None:
    fill(database, sizes(1, 1, 3, 5))
    (found,) = check(policy([model]), database.engine).checks
    assert found.measured == pytest.approx(measured)
    assert found.broken_classes == broken


def test_zayatz_is_near_the_estimate_of_risk(duck: Database) -> None:
    """`sqlanon risk` draws a sample of a fixed size; on a thousand records the two ways of drawing hardly differ."""
    counts = [1] * 60 + [2] * 90 + [5] * 50 + [10] * 40
    fill(duck, sizes(*counts))
    model = {"population_uniqueness": {"share": 0, "sampling_fraction": 0.1}}
    (found,) = check(policy([model]), duck.engine).checks
    assert found.measured == pytest.approx(zayatz_share(dict(Counter(counts)), 0.1), rel=0.01)


# ---- a release is what all nodes of the lattice allow, in pandas


def recoded(frame: pd.DataFrame, age: int | None, sex: int | None) -> pd.DataFrame:
    made = frame.copy()
    made["age"] = "*" if age is None else frame["age"] // age
    made["sex"] = "*" if sex is None else frame["sex"]
    return made


def average(frame: pd.DataFrame) -> float:
    return len(frame.groupby(["age", "sex"])) / len(frame)


def share_at_risk(frame: pd.DataFrame, risk: float) -> float:
    size = frame.groupby(["age", "sex"])["age"].transform("size")
    return float((1 / size > risk + 1e-12).mean())


WANTED: dict[str, tuple[dict[str, Any], Any]] = {
    "average_risk": ({"risk": 0.3}, lambda frame: average(frame) <= 0.3 + 1e-12),
    "record_risk": ({"risk": 0.4, "share": 0.25}, lambda frame: share_at_risk(frame, 0.4) <= 0.25 + 1e-12),
    "sample_uniqueness": ({"share": 0.1}, lambda frame: share_at_risk(frame, 0.5) <= 0.1 + 1e-12),
}
PEOPLE = st.lists(st.tuples(st.integers(20, 59), st.sampled_from("fm")), min_size=2, max_size=20)


@pytest.mark.full
@pytest.mark.parametrize("name", WANTED)
@settings(max_examples=examples(20))
@given(rows=PEOPLE)
def test_the_search_finds_a_release_if_and_only_if_a_node_holds(
    duck: Database, name: str, rows: list[tuple[int, str]]
) -> None:
    params, holds = WANTED[name]
    fill(duck, rows)
    duck.run("DROP TABLE IF EXISTS r")
    duck.run("DROP TABLE IF EXISTS sqlanon_releases")
    frame = pd.DataFrame(rows, columns=["age", "sex"])
    possible = any(holds(recoded(frame, *node)) for node in product(*LEVELS.values()))
    try:
        publish(policy([{name: params}]), duck.engine, workload=False)
    except NotReleased:
        assert not possible
        return
    released = pd.DataFrame(duck.fetch("SELECT age, sex FROM r"), columns=["age", "sex"])
    assert possible and len(released) == len(rows) and holds(released)


@settings(max_examples=examples(20))
@given(rows=PEOPLE)
@pytest.mark.full
def test_a_release_that_leaves_rows_out_holds_as_written(duck: Database, rows: list[tuple[int, str]]) -> None:
    """With another model, what that suppresses changes the average: it is measured until nothing is broken."""
    fill(duck, rows)
    duck.run("DROP TABLE IF EXISTS r")
    duck.run("DROP TABLE IF EXISTS sqlanon_releases")
    asked = policy(
        [{"average_risk": {"risk": 0.3}}, {"distinct_l_diversity": {"l": 2}}, {"k_anonymity": {"k": 2}}],
        suppression_limit=0.5,
    )
    try:
        publish(asked, duck.engine, workload=False)
    except NotReleased as error:
        assert "as written" not in error.message
        return
    released = pd.DataFrame(duck.fetch("SELECT age, sex FROM r"), columns=["age", "sex"])
    assert average(released) <= 0.3 + 1e-12
    assert check(asked, duck.engine, release=Source(table="r")).holds


def test_the_smallest_classes_are_left_out(database: Database) -> None:
    """Classes of 1, 1, 3 and 5: without the two uniques the average risk is 0.25."""
    fill(database, sizes(1, 1, 3, 5))
    levels = {"fixed_levels": {"levels": {"age": 0, "sex": 0}}}
    publish(
        policy([{"average_risk": {"risk": 0.25}}], suppression_limit=0.2, algorithm=levels),
        database.engine,
        workload=False,
    )
    assert sorted(Counter(age for (age,) in database.fetch("SELECT age FROM r")).values()) == [3, 5]


@pytest.mark.parametrize("name", [*WANTED, "population_uniqueness"])
def test_regions_refuse_risks_of_the_whole_table(duck: Database, name: str) -> None:
    """Regions are cut one by one: none of them knows the table."""
    params = {"share": 0.1, "sampling_fraction": 0.1} if name == "population_uniqueness" else WANTED[name][0]
    fill(duck, sizes(3, 3))
    with pytest.raises(PolicyError, match=f"mondrian cannot reach {name}") as error:
        publish(policy([{name: params}], algorithm="mondrian"), duck.engine, workload=False)
    assert "full_domain" in str(error.value)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"average_risk": {"risk": 0}}, "'risk' must be > 0"),
        ({"average_risk": {}}, "needs the parameter 'risk'"),
        ({"sample_uniqueness": {"share": 1.5}}, "'share' must be >= 0 and <= 1"),
        ({"population_uniqueness": {"share": 0.1, "sampling_fraction": 0}}, "'sampling_fraction' must be > 0 and <= 1"),
    ],
)
def test_parameters_out_of_range_are_refused(model: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        policy([model])


def test_an_empty_table_holds_nothing(database: Database) -> None:
    fill(database, [])
    found = check(policy([{"average_risk": {"risk": 0.5}}]), database.engine)
    assert not found.holds


def test_persons_are_counted(database: Database) -> None:
    """Four rows of two persons in one class: an average risk of 1 in 2."""
    rows = [{"who": who, "age": 30, "sex": "f", "disease": "flu"} for who in "aabb"]
    database.table("t", {"who": "TEXT", "age": "INTEGER", "sex": "TEXT", "disease": "TEXT"}, rows)
    columns = {"who": "identifier", "age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}
    (found,) = check(policy([{"average_risk": {"risk": 0.4}}], columns=columns, person="who"), database.engine).checks
    assert found.measured == 0.5 and not found.holds
