"""NULL in a sensitive column is an unknown value: a class holds only if it holds whatever its NULLs stand for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import brute
import pytest
from conftest import Database, examples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from measuring import measure, policy_for
from test_models import CATEGORIES, GROUP, PARENTS, QI_TREES, SPECS, TREE, TYPES, model_use, row

from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.families import family, models_of_shape
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish

Rows = list[dict[str, Any]]
QUICK = [Phase.explicit, Phase.reuse, Phase.generate]  # making a failure smaller takes many statements
WITH_CATEGORIES = ("distinct_l_alpha_diversity", "entropy_l_alpha_diversity", "recursive_cl_alpha_diversity")
# A class must hold for every completion of its NULLs: these models are asked about all of them.
COMPLETED = [
    "distinct_l_diversity",
    "entropy_l_diversity",
    "recursive_cl_diversity",
    "positive_recursive_cl_diversity",
    "negative_positive_recursive_cl_diversity",
    "l_plus_diversity",
    "confidence_bounding",
    "alpha_k_anonymity",
    "personalized_privacy",
]
NEAR = ["epsilon_m_anonymity", "relative_epsilon_m_anonymity"]  # a NULL is near to every number
# NULL is a value, and its share is compared; or it never was one.
AS_A_VALUE = [
    "t_closeness", "ordered_t_closeness", "hierarchical_t_closeness", "nt_closeness", "basic_beta_likeness",
    "enhanced_beta_likeness", "delta_disclosure", "expected_confidence", "k_e_anonymity",
]  # fmt: skip
VALUES = ["flu", "hiv", "gout", "new1", "new2"]  # those of the tree, and some that the table lacks


def completions(members: Rows, values: Sequence[Any] = VALUES) -> list[Rows]:
    """The class with values in place of its NULLs: all ways where there are few, else each value for all of them."""
    places = [i for i, item in enumerate(members) if item["s"] is None]
    ways: list[tuple[Any, ...]] = [(value,) * len(places) for value in values]
    if len(places) <= 3:
        ways = list(itertools.product(values, repeat=len(places)))
    return [
        [item | {"s": dict(zip(places, way, strict=True)).get(i, item["s"])} for i, item in enumerate(members)]
        for way in ways
    ]


def worst(name: str, rows: Rows, params: dict[str, Any]) -> dict[Any, tuple[float, bool]]:
    """What a class measures for the worst of its completions, and whether any of them breaks the model."""
    given = {key: value for key, value in SPECS[name][1].items() if key != "sensitive"} | params
    if name == "personalized_privacy":  # a guarding node may be of any of the values
        given["taxonomy"] = {leaf: (leaf, *up) for leaf, up in PARENTS.items() if leaf} | {
            value: (value, "root") for value in VALUES[3:]
        }
    smaller = models_of_shape("rows")[name].worse_when_smaller
    found = {}
    for key, members in brute.classes(rows, GROUP).items():
        ways = completions(members)
        measured = [float(getattr(brute, name)(way, GROUP, "s", **given)[key]) for way in ways]
        broken = [bool(getattr(brute, f"broken_{name}")(way, GROUP, "s", **given)) for way in ways]
        found[key] = (min(measured) if smaller else max(measured), any(broken))
    return found


tables = st.lists(row, max_size=24)


def asked(name: str, params: dict[str, Any], **more: Any) -> Policy:
    return policy_for(
        GROUP,
        ["s", "u", "n"],
        [model_use(name, params)],
        insensitive=("g",),
        hierarchies={"s": {"tree": {"tree": TREE}}, **QI_TREES},
        **more,
        sensitive_nulls="unknown",
    )


def test_every_model_of_a_sensitive_column_says_what_null_means() -> None:
    models = {name: item for name, item in models_of_shape("rows").items() if "sensitive" in item.needs}
    assert {*COMPLETED, *NEAR, *AS_A_VALUE, *WITH_CATEGORIES} == set(models) - {
        "multi_attribute_l_diversity",
        "xy_privacy",
    }
    for folder in ("models", "history"):
        for name, item in family(folder).items():
            if "sensitive" in item.needs or name in ("sequential_privacy", "stable_partition", "ff_anonymity"):
                assert "NULL" in item.summary, name
    for name in COMPLETED:
        assert "sensitive_nulls" in models_of_shape("rows")[name].summary, name


@pytest.mark.full
@settings(max_examples=examples(12), phases=QUICK)
@given(data=st.data(), rows=tables)
def test_a_class_holds_whatever_its_nulls_stand_for(database: Database, data: Any, rows: Rows) -> None:
    database.table("t", TYPES, rows)
    for name in COMPLETED:
        params = {key: data.draw(strategy, label=f"{name}.{key}") for key, strategy in SPECS[name][0].items()}
        (found,) = measure(database.engine, asked(name, params))
        truth = worst(name, rows, params)
        assert set(found) == set(truth)
        for key, (value, broken) in found.items():
            value = max(value, 1) if name == "distinct_l_diversity" else value  # a class of NULLs has no value yet
            assert value == pytest.approx(truth[key][0], rel=1e-9, abs=1e-9), (name, params, key)
            assert broken == truth[key][1], (name, params, key)


@settings(max_examples=examples(10), phases=QUICK)
@given(data=st.data(), rows=tables)
def test_persons_are_never_counted_to_the_unsafe_side(duck: Database, data: Any, rows: Rows) -> None:
    """A person with a value and a NULL counts for both: what is measured is the worst completion, or worse."""
    rows = [item | {"p": item["p"] or "unknown"} for item in rows]
    duck.table("t", TYPES, rows)
    for name in COMPLETED:
        params = {key: data.draw(strategy, label=f"{name}.{key}") for key, strategy in SPECS[name][0].items()}
        (found,) = measure(duck.engine, asked(name, params, person="p"))
        given = {key: value for key, value in SPECS[name][1].items() if key != "sensitive"} | params
        for key, members in brute.classes(rows, GROUP).items():
            for way in completions(members):
                if getattr(brute, f"broken_{name}")(way, GROUP, "s", **given, person="p"):
                    assert found[key][1], (name, params, key)


@settings(max_examples=examples(10), phases=QUICK)
@given(data=st.data(), rows=tables)
def test_a_null_is_near_to_every_number(database: Database, data: Any, rows: Rows) -> None:
    database.table("t", TYPES, rows)
    for name in NEAR:
        params = {key: data.draw(strategy, label=f"{name}.{key}") for key, strategy in SPECS[name][0].items()}
        (found,) = measure(database.engine, asked(name, params))
        for key, members in brute.classes(rows, GROUP).items():
            known = [item for item in members if item["n"] is not None]
            nulls = len(members) - len(known)
            near = float(getattr(brute, name)(known, GROUP, "n", **params)[key]) * len(known) if known else 0.0
            share = (near + nulls) / len(members)
            assert found[key][0] == pytest.approx(share, rel=1e-9), (name, params, key)
            assert found[key][1] == (share > 1 / params["m"] + 1e-12), (name, params, key)


@settings(max_examples=examples(10), phases=QUICK)
@given(data=st.data(), rows=tables)
def test_a_null_is_no_category_of_its_own(database: Database, data: Any, rows: Rows) -> None:
    """It has the weight that the policy gives it, never counts as a value, and may be of any category."""
    database.table("t", TYPES, rows)
    for name in WITH_CATEGORIES:
        params = {key: data.draw(strategy, label=f"{name}.{key}") for key, strategy in SPECS[name][0].items()}
        (found,) = measure(database.engine, asked(name, params))
        weights = brute.category_weights(3)
        for key, members in brute.classes(rows, GROUP).items():
            weighed = {"l": 1, "alpha": params["alpha"], "categories": CATEGORIES, "weights": weights}
            broken = bool(brute.broken_distinct_l_alpha_diversity(members, GROUP, "s", **weighed))
            broken |= len({item["s"] for item in members} - {None}) < params["l"]
            of_categories = [
                item | {"s": None if item["s"] is None else brute.category(item["s"], CATEGORIES)} for item in members
            ]
            if name != "distinct_l_alpha_diversity":
                plain = "entropy_l_diversity" if name.startswith("entropy") else "recursive_cl_diversity"
                own = {"l": params["l"]} | ({"c": params["c"]} if "c" in params else {})
                for way in completions(of_categories, [0, 1, 2]):
                    broken |= bool(getattr(brute, f"broken_{plain}")(way, GROUP, "s", **own))
            assert found[key][1] == broken, (name, params, key)


def test_nulls_that_the_policy_calls_a_value(database: Database) -> None:
    """Six rows of two classes: one known value beside NULLs is one value, or two where the policy says so."""
    kinds = {"a": "TEXT", "s": "TEXT"}
    database.table("t", kinds, [{"a": a, "s": s} for a, s in zip("xxxyyy", ["flu", None, None, "flu", "hiv", None],
                                                                 strict=True)])  # fmt: skip
    models = [
        {"distinct_l_diversity": {"l": 2}},
        {"entropy_l_diversity": {"l": 1.5}},
        {"alpha_k_anonymity": {"alpha": 0.7, "k": 2}},
    ]
    unknown = policy_for(["a"], ["s"], models, sensitive_nulls="unknown")
    value = policy_for(["a"], ["s"], models, sensitive_nulls="value")
    distinct, entropy, share = measure(database.engine, unknown)
    assert distinct == {("x",): (1, True), ("y",): (2, False)}
    assert entropy[("x",)] == (pytest.approx(1), True)
    assert entropy[("y",)] == (pytest.approx(1.8899, abs=1e-4), False)  # shares of 2/3 and 1/3
    assert share == {("x",): (1, True), ("y",): (pytest.approx(2 / 3), False)}
    distinct, entropy, share = measure(database.engine, value)
    assert distinct == {("x",): (2, False), ("y",): (3, False)}
    assert not any(broken for _, broken in (*entropy.values(), *share.values()))
    with pytest.raises(PolicyError, match="sensitive_nulls"):
        policy_for(["a"], ["s"], models, sensitive_nulls="values")


# Publishing -----------------------------------------------------------------------------------------------------------

PUBLISHED: dict[str, Any] = {
    "distinct_l_diversity": {"l": 2},
    "entropy_l_diversity": {"l": 1.4},
    "recursive_cl_diversity": {"c": 4, "l": 2},
    "positive_recursive_cl_diversity": {"c": 4, "l": 2, "dont_care": ["flu"]},
    "l_plus_diversity": {"thresholds": {"hiv": 0.8, "flu": 0.9}},
    "confidence_bounding": {"value": "hiv", "h": 0.8},
    "alpha_k_anonymity": {"alpha": 0.8, "k": 2},
}


def some_rows(count: int) -> Rows:
    return [
        {
            "age": 20 + (i * 7 + i // 5) % 23,
            "sex": "fm"[i // 3 % 2],
            "s": None if i % 9 == 4 else ["flu", "hiv", "gout"][(i + i // 4) % 3],
        }
        for i in range(count)
    ]


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["full_domain", "mondrian", "top_down_recoding"])
def test_what_is_published_holds_whatever_its_nulls_stand_for(database: Database, algorithm: str) -> None:
    rows = some_rows(90)
    database.table("t", {"age": "INTEGER", "sex": "TEXT", "s": "TEXT"}, rows)
    chosen = PUBLISHED if algorithm == "full_domain" else dict(list(PUBLISHED.items())[:3])
    for name, params in chosen.items():
        written = {
            "source": {"table": "t"},
            "columns": {"age": "quasi_identifier", "sex": "quasi_identifier", "s": "sensitive"},
            "hierarchies": {
                "age": {"intervals": {"widths": [5, 10, 20]}},
                "sex": {"tree": {"tree": {"*": ["f", "m"]}}},
            },
            "models": [{name: params}],
            "algorithm": algorithm,
            "suppression_limit": 0.3 if algorithm == "full_domain" else 0.0,
            "release": {"table": "r"},
            "absent_values": "allow",
        }
        policy = parse(json.dumps(written))
        assert publish(policy, database.engine, workload=False).document["holds"]
        assert check(policy, database.engine, release=Source(table="r")).holds
        released = [
            dict(zip(("age", "sex", "s"), item, strict=True)) for item in database.fetch("SELECT age, sex, s FROM r")
        ]
        for members in brute.classes(released, ["age", "sex"]).values():
            for way in completions(members):
                assert not getattr(brute, f"broken_{name}")(way, ["age", "sex"], "s", **params), (name, members)
