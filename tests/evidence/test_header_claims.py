"""Headers of SQL plug-ins are tested, not trusted: the search relies on them, and a false one is believed.

Each kind of claim has a checker in header_claims.py. It must find nothing in the headers as they are, and must find a
counterexample for headers that are made false here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import brute
import header_claims
import pytest
from conftest import Database, examples
from header_claims import MODEL_CHECKERS, Hierarchy, Lattice, Row, World, random_history, random_views, random_world
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import measure, policy_for
from test_models import SPECS, share

from sqlanon.errors import SqlanonError
from sqlanon.families import Plugin, family, models_of_shape
from sqlanon.policy.history import joins_releases
from sqlanon.sqltree.tree import find_references, uses_column

few = st.integers(2, 4)
PARAMS: dict[str, dict[str, st.SearchStrategy[Any]]] = {name: spec[0] for name, spec in SPECS.items()} | {
    "delta_disclosure": {**SPECS["delta_disclosure"][0], "observed_only": st.booleans()},
    "xy_anonymity": {"x": st.just(["a"]), "y": st.just(["s"]), "k": few},
    "xy_privacy": {"x": st.just(["a"]), "k": few, "h": share, "guarded": st.sampled_from([None, ["hiv", None]])},
    "alpha_k_anonymity": {"alpha": share, "k": few, "guarded": st.sampled_from([None, ["hiv"]])},
    "k_map": {"k": few},
    "combination_anonymity": {"k": few, "m": st.integers(1, 2)},
    "delta_presence": {"delta_min": st.sampled_from([0, 0.25, 0.5]), "delta_max": share},
    "ff_anonymity": {"h": share, "sensitive_values": st.just({"s": ["hiv"]})},
    "multirelational_k_anonymity": {"k": few},
}
MODELS = models_of_shape("rows")
JOINED = [name for name in family("history") if joins_releases(name)]
TOGETHER = [name for name in family("history") if name not in JOINED]
# A world is drawn from its seed: uniform draws find more than those that prefer small values.
seeds = st.integers(0, 2**40)
confidences = st.sampled_from([0.5, 0.6, 0.75, 1.0])


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    made = header_claims.connect()
    yield made
    made.close()


def given_params(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(PARAMS[name])


def find_false_claims(connection: Any, world: World, chosen: dict[str, dict[str, Any]]) -> list[str]:
    """What the checkers find in the headers of all models."""
    found = []
    kinds = sorted({(MODELS[name].classes, MODELS[name].counts) for name in chosen})
    for classes, counts in kinds:
        lattice = Lattice(connection, world, classes, counts)
        for name, params in chosen.items():
            if (MODELS[name].classes, MODELS[name].counts) == (classes, counts):
                found += [check(lattice, MODELS[name], params) for check in MODEL_CHECKERS.values()]
    return [item for item in found if item is not None]


all_params = st.fixed_dictionaries({name: given_params(name) for name in MODELS})


def test_every_model_takes_part() -> None:
    assert set(PARAMS) == set(MODELS)


@settings(max_examples=examples(25))
@given(seed=seeds, chosen=all_params)
def test_headers_of_models(connection: Any, seed: int, chosen: dict[str, Any]) -> None:
    assert find_false_claims(connection, random_world(Random(seed)), chosen) == []


@pytest.mark.long
@settings(max_examples=600)
@given(seed=seeds, chosen=all_params)
def test_headers_of_models_often(connection: Any, seed: int, chosen: dict[str, Any]) -> None:
    assert find_false_claims(connection, random_world(Random(seed), most_rows=24), chosen) == []


def find_false_losses(connection: Any, seed: int, k: int, most_rows: int) -> dict[str, str]:
    world = random_world(Random(seed), most_rows=most_rows)
    return header_claims.find_false_loss(connection, world, list(family("loss").values()), k)


@settings(max_examples=examples(20))
@given(seed=seeds, k=st.integers(2, 4))
def test_headers_of_loss_metrics(connection: Any, seed: int, k: int) -> None:
    assert find_false_losses(connection, seed, k, 10) == {}


@pytest.mark.long
@settings(max_examples=300)
@given(seed=seeds, k=st.integers(2, 6))
def test_headers_of_loss_metrics_often(connection: Any, seed: int, k: int) -> None:
    assert find_false_losses(connection, seed, k, 20) == {}


def find_false_across(connection: Any, seed: int, limit: int, h: float) -> list[str]:
    """What the checkers find in the headers of the models across releases."""
    rng = Random(seed)
    plugins = [family("history")[name] for name in TOGETHER]
    found = header_claims.find_false_history(connection, plugins, *random_history(rng), limit)
    params = {"sequential_privacy": {"x": ["a"], "k": 2, "h": h}, "join_of_views": {"k": 2}}
    shown = random_views(rng)
    joined = [
        header_claims.find_false_view(connection, family("history")[name], shown, params[name]) for name in JOINED
    ]
    return [*found.values(), *(item for item in joined if item is not None)]


@pytest.mark.full
@settings(max_examples=15)
@given(seed=seeds, limit=st.integers(2, 3), h=confidences)
def test_headers_of_models_across_releases(connection: Any, seed: int, limit: int, h: float) -> None:
    assert find_false_across(connection, seed, limit, h) == []


@pytest.mark.long
@settings(max_examples=400)
@given(seed=seeds, limit=st.integers(2, 3), h=confidences)
def test_headers_of_models_across_releases_often(connection: Any, seed: int, limit: int, h: float) -> None:
    assert find_false_across(connection, seed, limit, h) == []


# Headers that are made false ------------------------------------------------------------------------------------------

NESTED = "yes, also under record suppression"
PLAIN = "yes; not under record suppression"
ROOT = "SQRT(GREATEST(measured - :h, 0)), at most SQRT(1 - :h)"  # not convex
FALSE_MODELS: list[tuple[str, str, dict[str, Any], dict[str, str]]] = [
    ("monotone", "personalized_privacy", {"p_breach": 0.5, "guard": "g"}, {"monotone": PLAIN}),
    ("monotone", "t_closeness", {"t": 0.3}, {"monotone": NESTED}),
    ("monotone", "recursive_cl_diversity", {"c": 2, "l": 2}, {"monotone": NESTED}),
    ("monotone", "delta_presence", {"delta_min": 0, "delta_max": 0.5}, {"monotone": NESTED}),
    ("excess", "t_closeness", {"t": 0.3}, {"excess": "measured, at most 1"}),  # positive where the model holds
    ("excess", "basic_beta_likeness", {"beta": 0.5}, {"excess": "measured - :beta, at most 1"}),  # too low a bound
    ("excess", "confidence_bounding", {"value": "flu", "h": 0.1}, {"excess": ROOT}),
    ("excess", "entropy_l_diversity", {"l": 2}, {"excess": "LN(:l) - LN(measured), at most LN(:l) / 2"}),
    ("measures", "k_anonymity", {"k": 3}, {"measures": "records in the class; worse when larger"}),
    ("measures", "t_closeness", {"t": 0.3}, {"measures": "distance of the class to the table; worse when smaller"}),
    ("measures", "enhanced_beta_likeness", {"beta": 0.5}, {"measures": "largest relative gain; worse when smaller"}),
    ("measures", "epsilon_m_anonymity", {"epsilon": 1, "m": 2}, {"measures": "largest share; worse when smaller"}),
]


def is_found(refutes: Callable[[Random], Any], worlds: int = 200) -> bool:
    return any(refutes(Random(seed)) for seed in range(worlds))


@pytest.mark.full
@pytest.mark.parametrize(("claim", "name", "params", "header"), FALSE_MODELS)
def test_a_false_header_of_a_model_is_found(
    connection: Any, claim: str, name: str, params: dict[str, Any], header: dict[str, str]
) -> None:
    false = replace(MODELS[name], **header)  # type: ignore[arg-type]

    def refutes(rng: Random) -> str | None:
        world = replace(random_world(rng, columns=1), persons=False)
        return MODEL_CHECKERS[claim](Lattice(connection, world, false.classes, false.counts), false, params)

    assert is_found(refutes)


def world_of(*classes: str) -> World:
    """The first two classes lie below one label; a letter is a value of a record: f, g, h or - for NULL."""
    secrets = {"f": "flu", "g": "gout", "h": "hiv", "-": None}
    rows = tuple(Row((leaf,), secrets[letter]) for leaf, own in enumerate(classes) for letter in own)
    return World((Hierarchy(((0, 0, 0), (1, 0, 0), (2, 1, 0))),), (0, 0, 1), rows, (), False, True)


RARE = [  # the numbers of f, g and h are 0, 1 and 2
    ("epsilon_m_anonymity", {"epsilon": 1, "m": 2}, world_of("g-", "fh", "f")),  # g is near to both f and h
    ("delta_disclosure", {"delta": 0.7, "observed_only": True}, world_of("ffff", "ffh", "fhh")),  # without "unless"
]


@pytest.mark.parametrize(("name", "params", "world"), RARE, ids=["epsilon_m_anonymity", "delta_disclosure"])
def test_a_false_header_that_few_worlds_refute_is_found(
    connection: Any, name: str, params: dict[str, Any], world: World
) -> None:
    lattice = Lattice(connection, world)
    assert MODEL_CHECKERS["monotone"](lattice, MODELS[name], params) is None
    assert MODEL_CHECKERS["monotone"](lattice, replace(MODELS[name], monotone=PLAIN), params) is not None


@pytest.mark.full
@pytest.mark.parametrize("name", ["aecs", "discernibility", "precision", "kl_divergence", "classification_metric"])
def test_a_false_header_of_a_loss_metric_is_found(connection: Any, name: str) -> None:
    false = replace(family("loss")[name], monotone="yes")
    assert is_found(lambda rng: header_claims.find_false_loss(connection, random_world(rng, columns=1), [false], 3))


# The first is what its header said before it was tested.
@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "monotone"),
    [("composition", NESTED), ("incremental_l_diversity", NESTED), ("stable_partition", NESTED)],
)
def test_a_false_header_of_a_model_across_releases_is_found(connection: Any, name: str, monotone: str) -> None:
    false = [replace(family("history")[name], monotone=monotone)]
    assert is_found(lambda rng: header_claims.find_false_history(connection, false, *random_history(rng), 2))


@pytest.mark.parametrize("h", [0.6, 1.0])
def test_a_false_header_of_a_model_of_joined_releases_is_found(connection: Any, h: float) -> None:
    """Its header said so before it was tested: what matches only on a higher level may have one value."""
    false = replace(family("history")["sequential_privacy"], monotone=PLAIN)
    params = {"x": ["a"], "k": 2, "h": h}
    assert is_found(lambda rng: header_claims.find_false_view(connection, false, random_views(rng), params))


# What a model reads, what its classes are, and what it counts ---------------------------------------------------------

PROVIDED = {
    "sensitive": {"class_values", "totals"},
    "hierarchy": {"taxonomy"},
    "population": {"class_population"},
    "guards": {"class_guards"},
    "supersets": {"class_supersets", "superset_values", "superset_sizes"},
    "probabilities": {"class_probability"},
    "combinations": {"combinations"},
    "class_attribute": {"recoded_class_values"},
}


def find_false_needs(plugin: Plugin) -> list[str]:
    """What a file reads and does not need by its header, or needs by its header and does not read."""
    read = find_references(plugin.sql)
    found = [need for need, relations in PROVIDED.items() if (need in plugin.needs) != bool(relations & read)]
    if ("numeric" in plugin.needs) != uses_column(plugin.sql, "number"):
        found.append("numeric")
    for key, words in (("classes", ("other_sensitive", "row_sets", "combinations(m)")), ("counts", ("rows",))):
        named = getattr(plugin, key)
        param = plugin.param(named) if named and named not in words else None
        if named and named not in words and (param is None or param.type != "columns"):
            found.append(key)
    return found


@pytest.mark.parametrize("folder", ["models", "loss"])
def test_needs_are_what_a_file_reads(folder: str) -> None:
    of_rows = models_of_shape("rows") if folder == "models" else family(folder)
    assert {name: found for name, plugin in of_rows.items() if (found := find_false_needs(plugin))} == {}


@pytest.mark.parametrize(
    ("name", "header", "found"),
    [
        ("t_closeness", {"needs": ()}, ["sensitive"]),
        ("hierarchical_t_closeness", {"needs": ("sensitive",)}, ["hierarchy"]),
        ("k_anonymity", {"needs": ("population",)}, ["population"]),
        ("k_e_anonymity", {"needs": ("sensitive",)}, ["numeric"]),
        ("xy_privacy", {"classes": "z"}, ["classes"]),
        ("xy_anonymity", {"counts": "k"}, ["counts"]),
    ],
)
def test_false_needs_are_found(name: str, header: dict[str, Any], found: list[str]) -> None:
    assert find_false_needs(replace(MODELS[name], **header)) == found


ROWS = [
    {"a": a, "b": b, "s": s, "u": u, "p": p}
    for a, b, s, u, p in [
        ("x", "1", "flu", "m", "ann"),
        ("x", "1", "flu", "m", "ann"),
        ("x", "2", "hiv", "m", "bob"),
        ("y", "2", "hiv", "w", "eve"),
        ("y", "2", "gout", "w", "eve"),
        ("y", "1", None, "m", "joe"),
    ]
]


def agrees_with_oracle(database: Database, name: str) -> bool:
    """Whether what is measured with a person key, over the classes that the header names, is what brute.py measures."""
    calls: dict[str, tuple[dict[str, Any], Callable[..., dict[Any, Any]]]] = {
        "xy_privacy": (
            {"x": ["b"], "k": 2, "h": 0.6},
            lambda: brute.xy_privacy(ROWS, ["b"], "s", k=2, h=0.6, values=None, person="p"),
        ),
        "xy_anonymity": (
            {"x": ["b"], "y": ["u"], "k": 2},
            lambda: brute.xy_anonymity(ROWS, ["b"], ["u"], k=2, person="p"),
        ),
        "expected_confidence": ({}, lambda: brute.expected_confidence(ROWS, ["a", "b"], "s", beta=1)),
        "k_anonymity": ({"k": 2}, lambda: brute.k_anonymity(ROWS, ["a", "b"], k=2, person="p")),
    }
    params, oracle = calls[name]
    database.table("t", dict.fromkeys("absup", "TEXT"), ROWS)
    policy = policy_for(["a", "b"], ["s"], [{name: params}], insensitive=("u",), person="p")
    try:
        (found,) = measure(database.engine, policy)
    except SqlanonError:
        return False
    wanted = {key: pytest.approx(float(value)) for key, value in oracle().items()}
    return {key: value for key, (value, _) in found.items()} == wanted


FALSE_CLASSES = [
    ("xy_privacy", {"classes": ""}),
    ("xy_anonymity", {"counts": ""}),
    ("expected_confidence", {"counts": ""}),
    ("k_anonymity", {"counts": "rows"}),
]


@pytest.mark.parametrize(("name", "header"), FALSE_CLASSES)
def test_false_classes_and_counts_are_found(
    duck: Database, monkeypatch: pytest.MonkeyPatch, name: str, header: dict[str, str]
) -> None:
    assert agrees_with_oracle(duck, name)
    monkeypatch.setitem(family("models"), name, replace(MODELS[name], **header))  # type: ignore[arg-type]
    assert not agrees_with_oracle(duck, name)
