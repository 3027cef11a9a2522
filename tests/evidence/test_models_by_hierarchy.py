"""Every model with every kind of hierarchy: what the search finds, the check of the release accepts."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import brute
import pytest
from conftest import Database
from measuring import measure

from sqlanon.engines.temp_tables import run_steps
from sqlanon.evidence.checks import check, prepare
from sqlanon.families import models_of_shape
from sqlanon.hierarchies import names
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish

CITIES = ["Rome", "Milan", "Lyon", "Paris"]
TREE = {"*": {"Italy": ["Rome", "Milan"], "France": ["Lyon", "Paris"]}}
PATHS = [[city, land, "*"] for land, cities in TREE["*"].items() for city in cities]
ZIPS = ["10115", "10117", "20095", "20097"]
START = date(2020, 1, 30)
# kind: type of the column, its values, how the policy writes it
KINDS: dict[str, tuple[str, list[Any], Any]] = {
    "age": ("INTEGER", [21, 24, 37, 62], None),
    "country": ("TEXT", ["DE", "FR", "JP", "BR"], None),
    "csv": ("TEXT", CITIES, {"path": "{folder}/cities.csv"}),
    "dates": ("DATE", [START + timedelta(days=days) for days in (0, 1, 40, 400)], {"levels": ["month", "year"]}),
    "groups": ("TEXT", CITIES, {"order": CITIES, "sizes": [2]}),
    "hrc": ("TEXT", CITIES, {"path": "{folder}/cities.hrc"}),
    "intervals": ("INTEGER", [1, 7, 12, 33], {"widths": [5, 10]}),
    "ip": ("TEXT", ["10.0.0.1", "10.0.0.9", "10.0.7.1", "192.168.0.1"], None),
    "prefix": ("TEXT", ZIPS, {"length": 5}),
    "table": ("TEXT", CITIES, {"table": "cities", "columns": ["city", "land"]}),
    "tree": ("TEXT", CITIES, {"tree": TREE}),
    "zip3": ("TEXT", ZIPS, {"population": {"table": "census", "zip": "zip", "people": "people"}}),
}
DISEASES = {"*": {"viral": ["flu", "hiv"], "other": ["gout"]}}
CATEGORIES = [["hiv"], ["gout"], ["flu"]]
WEIGHED = {"l": 2, "alpha": 0.5, "categories": CATEGORIES}
OF_NUMBERS = {"attribute": "n"}
MODELS: dict[str, dict[str, Any]] = {
    "alpha_k_anonymity": {"alpha": 0.8, "k": 2},
    "average_risk": {"risk": 0.15},
    "basic_beta_likeness": {"beta": 2},
    "combination_anonymity": {"k": 3, "m": 1},
    "confidence_bounding": {"value": "hiv", "h": 0.7},
    "delta_disclosure": {"delta": 3},
    "delta_presence": {"delta_min": 0, "delta_max": 0.7},
    "distinct_l_alpha_diversity": WEIGHED,
    "distinct_l_diversity": {"l": 2},
    "enhanced_beta_likeness": {"beta": 2},
    "entropy_l_alpha_diversity": WEIGHED,
    "entropy_l_diversity": {"l": 1.5},
    "epsilon_m_anonymity": {"epsilon": 1, "m": 2} | OF_NUMBERS,
    "expected_confidence": {"beta": 0.9, "attribute": "s"},
    "ff_anonymity": {"h": 0.8, "sensitive_values": {"s": ["hiv"]}},
    "hierarchical_t_closeness": {"t": 0.4},
    "k_anonymity": {"k": 3},
    "k_e_anonymity": {"k": 2, "e": 1} | OF_NUMBERS,
    "k_map": {"k": 3},
    "l_plus_diversity": {"thresholds": {"hiv": 0.7}},
    "multi_attribute_l_diversity": {"l": 2},
    "negative_positive_recursive_cl_diversity": {"c1": 3, "c2": 0.1, "l": 2, "protect": ["hiv"]},
    "nt_closeness": {"n": 20, "t": 0.2, "attribute": "s"},
    "ordered_t_closeness": {"t": 0.3} | OF_NUMBERS,
    "personalized_privacy": {"p_breach": 0.9, "guard": "guard"},
    "population_uniqueness": {"share": 0.01, "sampling_fraction": 0.1},
    "positive_recursive_cl_diversity": {"c": 3, "l": 2, "dont_care": ["flu"]},
    "record_risk": {"risk": 0.2, "share": 0.1},
    "recursive_cl_alpha_diversity": {"c": 3} | WEIGHED,
    "recursive_cl_diversity": {"c": 3, "l": 2},
    "relative_epsilon_m_anonymity": {"epsilon": 0.1, "m": 2} | OF_NUMBERS,
    "sample_uniqueness": {"share": 0.02},
    "t_closeness": {"t": 0.3},
    "xy_anonymity": {"x": ["q"], "y": ["s"], "k": 2},
    "xy_privacy": {"x": ["q", "sex"], "k": 2, "h": 0.8},
}
OF_POPULATION = {"delta_presence", "k_map"}
# Counts owners over a join of tables; test_publish_joined.py publishes for it.
ELSEWHERE = {"multirelational_k_anonymity"}


def rows(kind: str, count: int = 60) -> list[dict[str, Any]]:
    values = [*KINDS[kind][1]]
    return [
        {
            "q": None if kind not in {"zip3"} and i % 20 == 3 else values[(i * i + i // 7) % 4],
            "sex": "fm"[i // 3 % 2],
            "s": ["flu", "hiv", "gout"][(i * 5 + i // 4) % 3],
            "n": (i * 7) % 11,
            "guard": None if i % 3 else "viral",
        }
        for i in range(count)
    ]


def filled(database: Database, kind: str, data: list[dict[str, Any]]) -> None:
    columns = {"q": KINDS[kind][0], "sex": "TEXT", "s": "TEXT", "n": "INTEGER", "guard": "TEXT"}
    database.table("t", columns, data)
    database.table("everybody", columns, [*data, *data[::2], *rows(kind, 45)])
    levels = {"city": "TEXT", "land": "TEXT", "everywhere": "TEXT"}
    database.table("cities", levels, [dict(zip(levels, path, strict=True)) for path in PATHS])
    people = [{"zip": code, "people": 30_000} for code in ZIPS]
    database.table("census", {"zip": "TEXT", "people": "INTEGER"}, people)


def policy(kind: str, models: list[Any], folder: Any, **more: Any) -> Policy:
    (folder / "cities.csv").write_text("".join(";".join(path) + "\n" for path in PATHS), encoding="utf-8")
    (folder / "cities.hrc").write_text("Italy\n@Rome\n@Milan\nFrance\n@Lyon\n@Paris\n", encoding="utf-8")
    _, _, params = KINDS[kind]
    numeric = any(use.get("attribute") == "n" for item in models for use in item.values())
    written = {
        "source": {"table": "t"},
        "columns": {"q": "quasi_identifier", "sex": "quasi_identifier", "s": "sensitive", "guard": "insensitive"}
        | {"n": "sensitive" if numeric else "insensitive"},
        "models": models,
        "hierarchies": {
            "q": {kind: params},
            "sex": {"tree": {"tree": {"*": ["f", "m"]}}},
            "s": {"tree": {"tree": DISEASES}},
        },
        "suppression_limit": 0.5,
        "release": {"table": "r"},
        "absent_values": "allow",
        "algorithm": "full_domain",
    }
    return parse(json.dumps(written | more).replace("{folder}", str(folder)))


def test_no_model_and_no_kind_is_left_out() -> None:
    assert set(MODELS) | ELSEWHERE == set(models_of_shape("rows"))
    assert set(KINDS) == set(names())


# Models that ask for the nodes of a quasi-identifier: the others read the labels of a release and nothing else.
LOOK_ABOVE = ["expected_confidence", "nt_closeness", "k_map", "delta_presence"]
COMPUTED = ["age", "dates", "intervals", "ip", "prefix"]


def refused(database: Database, kind: str, models: Sequence[str], folder: Any) -> dict[str, str]:
    """The models that cannot be published for, or whose release does not hold for its own check."""
    filled(database, kind, rows(kind))
    failed = {}
    for name in models:
        more = {"population": {"table": "everybody"}} if name in OF_POPULATION else {}
        asked = policy(kind, [{name: MODELS[name]}], folder, **more)
        try:
            assert publish(asked, database.engine, workload=False).document["holds"]
            assert check(asked, database.engine, release=Source(table="r")).holds
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_what_looks_above_labels(duck: Database, kind: str, tmp_path: Any) -> None:
    assert refused(duck, kind, LOOK_ABOVE, tmp_path) == {}


@pytest.mark.full
@pytest.mark.parametrize("kind", COMPUTED)
def test_what_looks_above_labels_on_postgres(postgres: Database, kind: str, tmp_path: Any) -> None:
    assert refused(postgres, kind, LOOK_ABOVE[:2], tmp_path) == {}


@pytest.mark.parametrize(
    "kind", ["tree", pytest.param("dates", marks=pytest.mark.full), pytest.param("prefix", marks=pytest.mark.full)]
)
def test_every_model_is_published_for(duck: Database, kind: str, tmp_path: Any) -> None:
    assert refused(duck, kind, [name for name in MODELS if name not in LOOK_ABOVE], tmp_path) == {}


# What lies above a label, computed by hand ----------------------------------------------------------------------------

AGES = [*range(20, 36)]
BANDS = {str(age): [f"[{age // w * w}, {age // w * w + w})" for w in (5, 10)] for age in AGES}
ABOVE = {label: [*path[place:], "*"] for age, path in BANDS.items() for place, label in enumerate([age, *path])}
BANDED = {"age": {"intervals": {"widths": [5, 10]}}, "sex": {"tree": {"tree": {"*": ["f", "m"]}}}}


def banded(models: list[Any], **more: Any) -> Policy:
    roles = {"age": "quasi_identifier", "sex": "quasi_identifier", "s": "sensitive"}
    written = {"source": {"table": "t"}, "columns": roles, "models": models, "hierarchies": BANDED}
    return parse(json.dumps(written | {"release": {"table": "r"}, "suppression_limit": 0.5} | more))


def drawn(count: int, seed: int = 0) -> list[dict[str, Any]]:
    pick = random.Random(seed)
    diseases = ["flu", "flu", "flu", "hiv", "gout"]
    return [{"age": pick.choice(AGES), "sex": pick.choice("fm"), "s": pick.choice(diseases)} for _ in range(count)]


def mixed_release(source: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Each row on a level of its own, as a local recoding may choose it."""
    pick = random.Random(seed)
    return [
        {"age": pick.choice([str(row["age"]), *BANDS[str(row["age"])], "*"]), "sex": row["sex"], "s": row["s"]}
        for row in source
    ]


def shares(released: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each label the share of the rows at or below it."""
    found: Counter[str] = Counter()
    for row in released:
        found.update({row["age"], *ABOVE.get(row["age"], [])})
    return {"age": {label: Fraction(count, len(released)) for label, count in found.items()}}


@pytest.mark.parametrize("seed", range(3))
def test_a_release_on_several_levels_against_brute_force(database: Database, seed: int) -> None:
    source = drawn(80, seed)
    released = mixed_release(source, seed)
    database.table("t", {"age": "INTEGER", "sex": "TEXT", "s": "TEXT"}, source)
    database.table("r", {"age": "TEXT", "sex": "TEXT", "s": "TEXT"}, released)
    asked = banded([{"expected_confidence": {"beta": 0.9}}, {"nt_closeness": {"n": 10, "t": 0.2}}])
    confidence, closeness = measure(database.engine, asked, Source(table="r"))
    group = ["age", "sex"]
    truth = brute.expected_confidence(released, group, "s", beta=0.9, public=shares(released))
    assert {key: value for key, (value, _) in confidence.items()} == pytest.approx(truth, abs=1e-9)
    ancestors = {"age": ABOVE, "sex": {"f": ["*"], "m": ["*"]}}
    near = brute.nt_closeness(released, group, "s", n=10, t=0.2, ancestors=ancestors)
    assert {key: value for key, (value, _) in closeness.items()} == pytest.approx(
        {key: float(value) for key, value in near.items()}, abs=1e-9
    )


def test_labels_of_an_unknown_source_have_nothing_above_them_but_the_root(duck: Database) -> None:
    """Without the values that were generalized, fewer supersets are known: the check can only be stricter."""
    source = drawn(60)
    released = mixed_release(source, 1)
    duck.table("t", {"age": "INTEGER", "sex": "TEXT", "s": "TEXT"}, source)
    duck.table("r", {"age": "TEXT", "sex": "TEXT", "s": "TEXT"}, released)
    asked = banded([{"nt_closeness": {"n": 10, "t": 0.2}}])
    compiler, checks, _ = prepare(asked, duck.engine, Source(table="r"), whole=False)
    run_steps(duck.engine, compiler.prelude.steps)
    same = "l.class_id = r.class_id"
    found = duck.fetch(f"SELECT c1, c2, measured FROM {checks[0].result} r JOIN {checks[0].classes} l ON {same}")
    ancestors = {"age": {label: ["*"] for label in ABOVE}, "sex": {"f": ["*"], "m": ["*"]}}
    near = brute.nt_closeness(released, ["age", "sex"], "s", n=10, t=0.2, ancestors=ancestors)
    assert {(age, sex): value for age, sex, value in found} == pytest.approx(
        {key: float(value) for key, value in near.items()}, abs=1e-9
    )


@pytest.mark.full
@pytest.mark.parametrize("trees", ["intervals", "tree"])
def test_a_sample_of_many_rows_holds_for_its_own_check(database: Database, trees: str) -> None:
    """20,000 rows, of which some are generalized and some are not: the check agrees with brute force."""
    source = drawn(20_000)
    for place, row in enumerate(source):  # a few rows have an age of their own, and a few of these a rare disease
        row["age"] = AGES[place % 12] if place % 2_000 > 15 else AGES[12 + place % 4]
        row["s"] = f"rare{place % 3}" if place % 1_000 < 4 else row["s"]
    named = {"*": {f"[{b}, {b + 10})": {f"[{a}, {a + 5})": [*map(str, range(a, a + 5))] for a in (b, b + 5)}
                   for b in (20, 30)}}  # fmt: skip
    age = BANDED["age"] if trees == "intervals" else {"tree": {"tree": named}}
    database.run("DROP TABLE IF EXISTS t")
    database.run("CREATE TABLE t (age INTEGER, sex TEXT, s TEXT)")
    values = ", ".join(f"({row['age']}, '{row['sex']}', '{row['s']}')" for row in source)
    database.run(f"INSERT INTO t VALUES {values}")
    asked = banded(
        [{"expected_confidence": {"beta": 0.9}}],
        hierarchies=BANDED | {"age": age},
        algorithm={"sample_and_generalize": {"rate": 0.9, "distortion": 0.9}},
    )
    done = publish(asked, database.engine, secret="a secret that is longer than sixteen characters", workload=False)
    released = [dict(zip(("age", "sex", "s"), map(str, row), strict=True))
                for row in database.fetch("SELECT age, sex, s FROM r")]  # fmt: skip
    levels = {len(ABOVE.get(row["age"], [])) for row in released}
    assert len(levels) > 1 and done.document["holds"]
    assert not brute.broken_expected_confidence(released, ["age", "sex"], "s", beta=0.9, public=shares(released))
    # Without the rows below a label, some of its records would seem to be inferred with too much confidence.
    assert brute.broken_expected_confidence(released, ["age", "sex"], "s", beta=0.9)
