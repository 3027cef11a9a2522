"""Checks against pycanon, for tables as `adult_tables` has them: a case names quasi-identifiers, their levels, the
sensitive attributes, and what pycanon measured. For several sensitive attributes pycanon (with gen=True) leaves the
quasi-identifiers as they are and reports the worst attribute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from adult_tables import load_adult, recode_adult
from conftest import Database

from sqlanon.evidence.checks import check
from sqlanon.evidence.results import CheckResult
from sqlanon.policy import parse

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
SMALLER_IS_WORSE = ("k_anonymity", "distinct_l_diversity", "entropy_l_diversity")


def release_case(database: Database, folder: Path, case: dict[str, Any]) -> None:
    """The tables `adult` and `released`: generalized, without classes of fewer than `drop_k` rows."""
    load_adult(database, folder)
    levels = dict(zip(case["qi"], case["levels"], strict=True))
    recode_adult(database, folder, "adult", "generalized", levels, case["sa"])
    group = ", ".join(f'"{name}"' for name in case["qi"])
    database.run(
        "CREATE OR REPLACE TABLE released AS SELECT * FROM generalized "
        f"QUALIFY count(*) OVER (PARTITION BY {group}) >= {case['drop_k']}"
    )


def worst(results: list[CheckResult], model: str, **params: Any) -> float:
    """The worst over the sensitive attributes."""
    found = [
        result.measured
        for result in results
        if result.model == model and params.items() <= result.params.items() and result.measured is not None
    ]
    return min(found) if model in SMALLER_IS_WORSE else max(found)


def check_case(database: Database, folder: Path, case: dict[str, Any]) -> list[CheckResult]:
    """What is measured of the case here, once it was compared with pycanon where that follows the definitions."""
    release_case(database, folder, case)
    roles = dict.fromkeys(case["qi"], "quasi_identifier") | dict.fromkeys(case["sa"], "sensitive")
    written = {"source": {"table": "released"}, "columns": roles, "models": MODELS}
    evidence = check(parse(json.dumps(written)), database.engine, limit=0)
    assert evidence.records == case["n_rows"]
    found = list(evidence.checks)
    known = case["pycanon"]
    assert {result.classes for result in found} == {known["sizes_ec"]["n_ec"]}
    exactly = {"abs": 1e-9, "rel": 1e-9}
    assert worst(found, "k_anonymity") == known["k_anonymity"] == known["sizes_ec"]["min_ec"]
    assert worst(found, "alpha_k_anonymity") == pytest.approx(known["alpha_k_anonymity"][0], **exactly)
    assert worst(found, "distinct_l_diversity") == known["l_diversity"]
    assert worst(found, "basic_beta_likeness") == pytest.approx(known["basic_beta_likeness"], **exactly)
    assert worst(found, "delta_disclosure", observed_only=True) == pytest.approx(known["delta_disclosure"], **exactly)
    assert worst(found, "t_closeness") == pytest.approx(known["t_closeness"], **exactly)
    return found
