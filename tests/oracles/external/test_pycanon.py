"""The checks and losses on Adult, against what pycanon and an independent numpy program found there.

pycanon is compared where it follows the definitions, the numpy program beside it where it does not. The data may not be
committed, the numbers are in tests/oracles/numbers/pycanon_adult.json. Checks of the same that need none of it:

- test_models_on_adult: tests/oracles/test_pycanon_generated.py::test_models_on_generated_rows (the numbers of pycanon),
  tests/evidence/test_models.py::test_models_agree_with_their_definitions (all models)
- test_losses_on_adult: tests/evidence/test_loss.py::test_losses_agree_with_their_definitions
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from adult_tables import adult_policy
from conftest import Database
from oracle_numbers import read_numbers
from pycanon_cases import check_case, release_case, worst
from shared_data import adult_folder

from sqlanon.evidence.loss import loss
from sqlanon.evidence.results import CheckResult
from sqlanon.policy import Source

every_case = pytest.mark.parametrize("case", read_numbers("pycanon_adult")["cases"], ids=lambda case: case["case"])


@every_case
def test_models_on_adult(duck: Database, case: Any) -> None:
    found = check_case(duck, adult_folder(), case)
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
    folder = adult_folder()
    release_case(duck, folder, case)
    # The metric c_avg divides by the k of the policy; a case that drops nothing asked for none.
    k = case["drop_k"] or 1
    models = [{"k_anonymity": {"k": k}}] if k > 1 else [{"distinct_l_diversity": {"l": 2}}]
    roles = dict.fromkeys(case["qi"], "quasi_identifier") | dict.fromkeys(case["sa"], "sensitive")
    policy = adult_policy(folder, case["qi"], None, models, columns=roles)
    found = loss(policy, duck.engine, Source(table="released"))
    known = case["utility_vs_raw"]
    assert found.levels == dict(zip(case["qi"], case["levels"], strict=True))
    assert (found.records - found.suppressed, found.suppressed) == (known["released"], known["suppressed"])
    assert found.metrics["c_avg"] == pytest.approx(known["c_avg"], rel=1e-9)
    assert found.metrics["c_avg"] == pytest.approx(known["released"] / known["n_ec"] / k, rel=1e-9)
    classes = known["n_ec"] + (1 if known["suppressed"] else 0)
    assert found.metrics["aecs"] == pytest.approx(found.records / classes, rel=1e-9)
    assert found.metrics["discernibility"] == known["dm"]
    assert found.metrics["ncp"] == pytest.approx(known["gcp"], rel=1e-9, abs=1e-12)
