"""Every privacy model as SQL, on both engines, against the plain Python of brute.py on random tables."""

from __future__ import annotations

import math
from typing import Any

import brute
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import measure, policy_for

from sqlanon.families import models_of_shape

GROUP = ["a", "b"]
TYPES = {"a": "TEXT", "b": "TEXT", "s": "TEXT", "u": "TEXT", "n": "DOUBLE PRECISION", "g": "TEXT", "p": "TEXT"}
SECRETS = ["flu", "hiv", "gout", None]
TREE = {"root": {"viral": ["flu", "hiv"], "other": ["gout"]}}
# What the tree above says, written out for the oracle: parents from the leaf's own up to the root.
PARENTS = {
    "flu": ("viral", "root"),
    "hiv": ("viral", "root"),
    "gout": ("other", "root"),
    None: ("\u2205 NULL", "root"),
}
QI_TREES = {
    "a": {"tree": {"tree": {"*": {"low": ["x", "y"], "high": ["z"]}}}},
    "b": {"tree": {"tree": {"*": ["1", "2"]}}},
}
ANCESTORS = {
    "a": {"x": ["low", "*"], "y": ["low", "*"], "z": ["high", "*"], None: ["*"]},
    "b": {"1": ["*"], "2": ["*"], None: ["*"]},
}

row = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["x", "y", "z", None]),
        "b": st.sampled_from(["1", "2", None]),
        "s": st.sampled_from(SECRETS),
        "u": st.sampled_from(["m", "w"]),
        "n": st.sampled_from([-4.0, 0.0, 1.0, 1.5, 30.0, None]),
        "g": st.sampled_from(["viral", "flu", "root", None]),
        "p": st.sampled_from(["ann", "bob", "eve", "joe", "liv", None]),
    }
)
tables = st.one_of(
    st.lists(row, max_size=40),
    st.builds(lambda one, times: [one] * times, row, st.integers(1, 12)),  # all equal
)

CATEGORIES = [["hiv", None], ["gout"], ["flu"]]
share = st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.6, 0.7, 0.9, 1.0])
SPECS: dict[str, Any] = {
    # model: (parameters as a policy gives them, how the oracle is called)
    "k_anonymity": ({"k": st.integers(2, 6)}, {}),
    "distinct_l_diversity": ({"l": st.integers(2, 4)}, {}),
    "multi_attribute_l_diversity": ({"l": st.integers(2, 4)}, {"others": ["u", "n"]}),
    "entropy_l_diversity": ({"l": st.sampled_from([1.5, 2, 2.5, 3])}, {}),
    "recursive_cl_diversity": ({"c": st.sampled_from([0.5, 1, 2, 3]), "l": st.integers(1, 3)}, {}),
    "positive_recursive_cl_diversity": (
        {"c": st.sampled_from([0.5, 1, 2]), "l": st.integers(2, 3), "dont_care": st.just(["flu"])},
        {},
    ),
    "negative_positive_recursive_cl_diversity": (
        {
            "c1": st.sampled_from([0.5, 1, 2]),
            "c2": share,
            "l": st.integers(2, 3),
            "dont_care": st.just(["gout"]),
            "protect": st.just(["hiv", "flu"]),
        },
        {},
    ),
    "distinct_l_alpha_diversity": (
        {"l": st.integers(2, 3), "alpha": st.sampled_from([0.5, 1, 2]), "categories": st.just(CATEGORIES)},
        {"weights": brute.category_weights(3)},
    ),
    "entropy_l_alpha_diversity": (
        {"l": st.integers(2, 3), "alpha": st.sampled_from([0.5, 1]), "categories": st.just(CATEGORIES)},
        {"weights": brute.category_weights(3)},
    ),
    "recursive_cl_alpha_diversity": (
        {
            "c": st.sampled_from([1, 2]),
            "l": st.integers(2, 3),
            "alpha": st.sampled_from([0.5, 1]),
            "categories": st.just(CATEGORIES),
        },
        {"weights": brute.category_weights(3)},
    ),
    "l_plus_diversity": ({"thresholds": st.fixed_dictionaries({"flu": share, "hiv": share})}, {}),
    "confidence_bounding": ({"value": st.sampled_from(["flu", "hiv"]), "h": share}, {}),
    "alpha_k_anonymity": ({"alpha": share, "k": st.integers(2, 5)}, {}),
    "k_e_anonymity": ({"k": st.integers(2, 3), "e": st.sampled_from([0, 1, 4.5, 30])}, {"sensitive": "n"}),
    "epsilon_m_anonymity": (
        {"epsilon": st.sampled_from([0, 0.5, 1, 4]), "m": st.integers(2, 4)},
        {"sensitive": "n"},
    ),
    "relative_epsilon_m_anonymity": (
        {"epsilon": st.sampled_from([0, 0.25, 0.5]), "m": st.integers(2, 4)},
        {"sensitive": "n"},
    ),
    "t_closeness": ({"t": share}, {}),
    "ordered_t_closeness": ({"t": share}, {"sensitive": "n"}),
    "hierarchical_t_closeness": ({"t": share}, {"taxonomy": PARENTS}),
    "nt_closeness": ({"n": st.integers(1, 12), "t": share}, {"ancestors": ANCESTORS}),
    "basic_beta_likeness": ({"beta": st.sampled_from([0.2, 0.5, 1, 3])}, {}),
    "enhanced_beta_likeness": ({"beta": st.sampled_from([0.2, 0.5, 1, 3])}, {}),
    "delta_disclosure": ({"delta": st.sampled_from([0.2, 0.5, 1, 3])}, {}),
    "personalized_privacy": (
        {"p_breach": share, "guard": st.just("g")},
        {"taxonomy": {leaf: (leaf, *up) for leaf, up in PARENTS.items()}},
    ),
    "expected_confidence": ({"beta": st.sampled_from([0.5, 0.9, 1])}, {}),
    "average_risk": ({"risk": share}, {}),
    "record_risk": ({"risk": share, "share": st.sampled_from([0, 0.1, 0.3, 0.5, 1])}, {}),
    "sample_uniqueness": ({"share": st.sampled_from([0, 0.1, 0.25, 0.5, 1])}, {}),
    "population_uniqueness": (
        {"share": st.sampled_from([0, 0.05, 0.1, 0.5]), "sampling_fraction": st.sampled_from([0.01, 0.1, 0.5, 0.9])},
        {},
    ),
}
# Models with a test of their own in test_models_special.py, since their input has another shape.
ELSEWHERE = {"xy_anonymity", "xy_privacy", "k_map", "delta_presence", "ff_anonymity", "multirelational_k_anonymity"}
ELSEWHERE |= {"combination_anonymity"}  # test_combination_anonymity.py


def test_every_model_is_tested_against_the_oracle() -> None:
    assert set(models_of_shape("rows")) == set(SPECS) | ELSEWHERE


def close(one: float, other: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


# With a person key these count a person once for each of his values that lies in the range looked at.
ON_THE_SAFE_SIDE = {"personalized_privacy", "epsilon_m_anonymity", "relative_epsilon_m_anonymity"}
ATTRIBUTES = ["s", "u", "n"]


def model_use(name: str, params: dict[str, Any]) -> dict[str, Any]:
    if "sensitive" not in models_of_shape("rows")[name].needs:
        return {name: params}
    return {name: {**params, "attribute": SPECS[name][1].get("sensitive", "s")}}


def oracle(name: str, rows: list[dict[str, Any]], params: dict[str, Any], person: bool) -> tuple[Any, Any]:
    """Measured values and broken classes by the definition."""
    shape = SPECS[name][1]
    # A row without a person is one unknown person here; the oracle leaves such rows out, so it is told a name.
    known = [item | {"p": "unknown" if item["p"] is None else item["p"]} for item in rows]
    given = {key: value for key, value in shape.items() if key != "sensitive"} | params
    counts_rows = models_of_shape("rows")[name].counts == "rows"
    who = {"person": "p"} if person and not counts_rows else {}
    args: tuple[Any, ...] = (known, GROUP)
    if "sensitive" in models_of_shape("rows")[name].needs:
        args = (*args, shape.get("sensitive", "s"))
    return getattr(brute, name)(*args, **given, **who), getattr(brute, f"broken_{name}")(*args, **given, **who)


@settings(max_examples=examples(25))
@given(data=st.data(), rows=tables, person=st.booleans())
def test_models_agree_with_their_definitions(database: Database, data: Any, rows: Any, person: bool) -> None:
    chosen = {
        name: {key: data.draw(strategy, label=f"{name}.{key}") for key, strategy in spec[0].items()}
        for name, spec in SPECS.items()
    }
    policy = policy_for(
        GROUP,
        ATTRIBUTES,
        [model_use(name, params) for name, params in chosen.items()],
        insensitive=("g",),
        hierarchies={"s": {"tree": {"tree": TREE}}, **QI_TREES},
        sensitive_nulls="value",  # as the oracle counts; what is unknown has tests of its own
        **({"person": "p"} if person else {}),
    )
    database.table("t", TYPES, rows)
    for (name, params), found in zip(chosen.items(), measure(database.engine, policy), strict=True):
        measured, broken = oracle(name, rows, params, person)
        if name == "multi_attribute_l_diversity":  # its classes show the quasi-identifiers alone
            assert {key for key, (_, bad) in found.items() if bad} == {key[: len(GROUP)] for key in broken}
            continue
        assert set(found) == set(measured), name
        for key, (value, bad) in found.items():
            if person and name in ON_THE_SAFE_SIDE:
                assert value >= float(measured[key]) - 1e-9 and (bad or key not in broken), (name, params, key)
                continue
            assert close(value, float(measured[key])), (name, params, key, value, float(measured[key]))
            assert bad == (key in broken), (name, params, key, value)
