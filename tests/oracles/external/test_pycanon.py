"""The checks and losses on Adult, against what pycanon and an independent numpy program found there.

pycanon is compared where it follows the definitions, the numpy program beside it where it does not. For several
sensitive attributes pycanon (with gen=True) leaves the quasi-identifiers as they are and reports the worst attribute.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from conftest import SHARED, Database, shared

from sqlanon.evidence.checks import check
from sqlanon.evidence.loss import loss
from sqlanon.evidence.results import CheckResult
from sqlanon.policy import Policy, Source, parse

ORACLE = ("oracles", "pycanon_adult.json")
# Bounds that no class can keep or that every class keeps: only what was measured is of interest.
MODELS: list[dict[str, Any]] = [
    {"k_anonymity": {"k": 2}},
    {"alpha_k_anonymity": {"alpha": 0.5, "k": 2}},
    {"distinct_l_diversity": {"l": 2}},
    {"entropy_l_diversity": {"l": 2}},
    {"recursive_cl_diversity": {"c": 1, "l": 1}},
    {"recursive_cl_diversity": {"c": 1, "l": 2}},
    {"recursive_cl_diversity": {"c": 1, "l": 3}},
    {"basic_beta_likeness": {"beta": 1}},
    {"enhanced_beta_likeness": {"beta": 1e9}},
    {"delta_disclosure": {"delta": 1, "observed_only": True}},
    {"delta_disclosure": {"delta": 1e9}},
    {"t_closeness": {"t": 0.1}},
    {"ordered_t_closeness": {"t": 0.1}},
]


def cases() -> list[Any]:
    path = SHARED.joinpath(*ORACLE)
    return json.loads(path.read_text())["cases"] if path.exists() else [None]


every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case and case["case"])


def policy_of(case: dict[str, Any], table: str, models: list[dict[str, Any]], hierarchies: bool = False) -> Policy:
    roles = dict.fromkeys(case["qi"], "quasi_identifier") | dict.fromkeys(case["sa"], "sensitive")
    folder = shared("data", "adult")
    files = {name: {"csv": {"path": str(folder / f"adult_hierarchy_{name}.csv")}} for name in case["qi"]}
    written = {"source": {"table": table}, "columns": roles, "models": models}
    return parse(json.dumps(written | ({"hierarchies": files} if hierarchies else {})))


def generalize(database: Database, case: dict[str, Any]) -> None:
    """The tables `adult` and `released`, by plain joins to the hierarchy files."""
    folder = shared("data", "adult")
    database.run(f"CREATE TABLE adult AS FROM read_csv('{folder / 'adult.csv'}', delim=';', all_varchar=true)")
    chosen, joins = [f't."{name}"' for name in case["sa"]], []
    for place, (name, level) in enumerate(zip(case["qi"], case["levels"], strict=True)):
        reader = f"read_csv('{folder / f'adult_hierarchy_{name}.csv'}', delim=';', header=false, all_varchar=true)"
        joins.append(f'JOIN {reader} h{place} ON h{place}.column0 = t."{name}"')
        chosen.append(f'h{place}.column{level} AS "{name}"')
    group = ", ".join(f'"{name}"' for name in case["qi"])
    database.run(
        f"CREATE TABLE released AS SELECT * FROM (SELECT {', '.join(chosen)} FROM adult t {' '.join(joins)}) "
        f"QUALIFY count(*) OVER (PARTITION BY {group}) >= {case['drop_k']}"
    )


def worst(results: list[CheckResult], model: str, **params: Any) -> float:
    """The worst over the sensitive attributes."""
    found = [
        result.measured
        for result in results
        if result.model == model and params.items() <= result.params.items() and result.measured is not None
    ]
    return max(found) if model not in ("k_anonymity", "distinct_l_diversity", "entropy_l_diversity") else min(found)


@every_case
def test_models_on_adult(duck: Database, case: Any) -> None:
    if case is None:
        shared(*ORACLE)
    generalize(duck, case)
    evidence = check(policy_of(case, "released", MODELS), duck.engine, limit=0)
    assert evidence.records == case["n_rows"]
    found = list(evidence.checks)
    assert {result.classes for result in found} == {case["pycanon"]["sizes_ec"]["n_ec"]}
    known = case["pycanon"]
    exactly = {"abs": 1e-9, "rel": 1e-9}
    assert worst(found, "k_anonymity") == known["k_anonymity"] == known["sizes_ec"]["min_ec"]
    assert worst(found, "alpha_k_anonymity") == pytest.approx(known["alpha_k_anonymity"][0], **exactly)
    assert worst(found, "distinct_l_diversity") == known["l_diversity"]
    assert worst(found, "basic_beta_likeness") == pytest.approx(known["basic_beta_likeness"], **exactly)
    assert worst(found, "delta_disclosure", observed_only=True) == pytest.approx(known["delta_disclosure"], **exactly)
    assert worst(found, "t_closeness") == pytest.approx(known["t_closeness"], **exactly)
    if "definition" in case:
        by_definition(found, case["definition"])


def by_definition(found: list[CheckResult], known: dict[str, Any]) -> None:
    exactly = {"abs": 1e-9, "rel": 1e-9}
    assert worst(found, "k_anonymity") == known["k"]
    assert worst(found, "alpha_k_anonymity") == pytest.approx(known["alpha"], **exactly)
    assert worst(found, "distinct_l_diversity") == known["l"]
    assert worst(found, "entropy_l_diversity") == pytest.approx(known["entropy_l"], **exactly)
    for place in (1, 2, 3):
        supremum = float(known["recursive_c_sup"][f"l={place}"])
        assert worst(found, "recursive_cl_diversity", l=place) == pytest.approx(supremum, **exactly)
    assert worst(found, "basic_beta_likeness") == pytest.approx(known["basic_beta"], **exactly)
    # Infinite where some gain exceeds -ln q: no beta, however large, is enough.
    (enhanced,) = [result for result in found if result.model == "enhanced_beta_likeness"]
    assert enhanced.holds == math.isfinite(float(known["enhanced_beta_min"]))
    observed = known["delta_over_observed_values"]
    assert worst(found, "delta_disclosure", observed_only=True) == pytest.approx(observed, **exactly)
    assert worst(found, "delta_disclosure", delta=1e9) == float(known["delta_definition"])
    assert worst(found, "t_closeness") == pytest.approx(known["t_equal"], **exactly)
    assert worst(found, "ordered_t_closeness") == pytest.approx(known["t_ordered_by_sorted_value"], **exactly)


@every_case
def test_losses_on_adult(duck: Database, case: Any) -> None:
    if case is None:
        shared(*ORACLE)
    generalize(duck, case)
    # The metric c_avg divides by the k of the policy; a case that drops nothing asked for none.
    k = case["drop_k"] or 1
    models = [{"k_anonymity": {"k": k}}] if k > 1 else [{"distinct_l_diversity": {"l": 2}}]
    levels = dict(zip(case["qi"], case["levels"], strict=True))
    found = loss(policy_of(case, "adult", models, hierarchies=True), duck.engine, Source(table="released"))
    known = case["utility_vs_raw"]
    assert found.levels == levels
    assert (found.records - found.suppressed, found.suppressed) == (known["released"], known["suppressed"])
    assert found.metrics["c_avg"] == pytest.approx(known["c_avg"], rel=1e-9)
    assert found.metrics["c_avg"] == pytest.approx(known["released"] / known["n_ec"] / k, rel=1e-9)
    classes = known["n_ec"] + (1 if known["suppressed"] else 0)
    assert found.metrics["aecs"] == pytest.approx(found.records / classes, rel=1e-9)
    assert found.metrics["discernibility"] == known["dm"]
    assert found.metrics["ncp"] == pytest.approx(known["gcp"], rel=1e-9, abs=1e-12)
