"""The numbers of pycanon on generated rows: both the checks and the oracle measure what pycanon measured.

pycanon needs an older pandas than the tests, so its numbers are in tests/oracles/numbers/pycanon_lookalike.json.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import brute
import pytest
from adult_tables import write_lookalike
from conftest import Database
from oracle_numbers import read_numbers
from pycanon_cases import check_case, release_case

KNOWN = read_numbers("pycanon_lookalike")
every_case = pytest.mark.parametrize("case", KNOWN["cases"], ids=lambda case: case["case"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lookalike(tmp_path_factory.mktemp("lookalike"), 3000)


def test_the_rows_are_those_that_pycanon_saw(folder: Path) -> None:
    assert hashlib.sha256((folder / "adult.csv").read_bytes()).hexdigest() == KNOWN["sha256"]


@every_case
def test_models_on_generated_rows(duck: Database, folder: Path, case: Any) -> None:
    check_case(duck, folder, case)


@every_case
def test_the_oracle_measures_what_pycanon_measures(duck: Database, folder: Path, case: Any) -> None:
    release_case(duck, folder, case)
    names = [*case["qi"], *case["sa"]]
    chosen = ", ".join(f'"{name}"' for name in names)
    rows = [dict(zip(names, row, strict=True)) for row in duck.fetch(f"SELECT {chosen} FROM released")]
    qi, known = case["qi"], case["pycanon"]

    def worst(pick: Any, measured: Any) -> float:
        return float(pick(pick(measured(s).values()) for s in case["sa"]))

    assert min(brute.k_anonymity(rows, qi, k=1).values()) == known["k_anonymity"]
    assert worst(min, lambda s: brute.distinct_l_diversity(rows, qi, s, l=1)) == known["l_diversity"]
    alpha = worst(max, lambda s: brute.alpha_k_anonymity(rows, qi, s, alpha=1, k=1))
    assert alpha == pytest.approx(known["alpha_k_anonymity"][0])
    beta = worst(max, lambda s: brute.basic_beta_likeness(rows, qi, s, beta=1))
    assert beta == pytest.approx(known["basic_beta_likeness"])
    # By its definition this is infinite where a class lacks a value; pycanon looks at the values that a class has.
    delta = worst(max, lambda s: brute.delta_disclosure(rows, qi, s, delta=1))
    assert delta == (pytest.approx(known["delta_disclosure"]) if case["all_values_observed"] else math.inf)
    assert worst(max, lambda s: brute.t_closeness(rows, qi, s, t=1)) == pytest.approx(known["t_closeness"])
