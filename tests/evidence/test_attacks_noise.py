"""Versions of a table with noise at several levels, put together by an attacker: against numpy, on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import Database

from sqlanon.evidence.attacks import Attack, Attacks, attack
from sqlanon.policy import Source, parse

ROWS = 1_500
ALPHAS = (0.2, 0.5)
POLICY = """
source: {table: t}
columns: {zip: quasi_identifier, code: insensitive, income: sensitive}
transformations: [additive_noise: {columns: [income], alpha: 0.2}]
models: [k_anonymity: {k: 2}]
"""
Array = np.ndarray[Any, Any]


def put(database: Database, name: str, income: Array, codes: int) -> None:
    rows = [{"zip": str(place % 7), "code": str(place % codes), "income": float(x)} for place, x in enumerate(income)]
    database.table(name, {"zip": "TEXT", "code": "TEXT", "income": "DOUBLE PRECISION"}, rows)


def tried(database: Database, noise: tuple[Array, Array], codes: int = ROWS) -> tuple[Attacks, Array]:
    """The attack on two versions of the same incomes."""
    income = np.random.default_rng(3).lognormal(10, 0.5, ROWS)
    put(database, "t", income, codes)
    for name, each in zip(("r", "other"), noise, strict=True):
        put(database, name, income + each * income.std(), codes)
    both = {"release": Source(table="r"), "other": Source(table="other")}
    return attack(parse(POLICY), database.engine, names=["noise_levels"], **both), income


def only(found: Attacks) -> Attack:
    (item,) = found.attacks
    return item


def draws(seed: int, alpha: float) -> Array:
    return np.random.default_rng(seed).normal(0, np.sqrt(alpha), ROWS)


@pytest.mark.full
def test_independent_draws_are_averaged(database: Database) -> None:
    """As inverse covariances weigh them, by numpy and with the noise itself in hand."""
    noise = draws(1, ALPHAS[0]), draws(2, ALPHAS[1])
    found, _ = tried(database, noise)
    covariance = np.cov(np.vstack(noise))
    weights = np.linalg.solve(covariance, np.ones(2))
    best = (weights / weights.sum()) @ np.vstack(noise)
    single = min(np.sqrt(np.mean(each**2)) for each in noise)
    after = only(found).after
    assert after is not None and after.targets == ROWS
    assert after.confidence == pytest.approx(1 - np.sqrt(np.mean(best**2)) / single, abs=1e-3)
    assert 1 - np.sqrt(1 / (1 / 0.2 + 1 / 0.5)) / np.sqrt(0.2) == pytest.approx(after.confidence, abs=0.05)


def test_multiples_of_one_draw_give_the_data_back(database: Database) -> None:
    one = draws(1, 1.0)
    found, _ = tried(database, (one * np.sqrt(ALPHAS[0]), one * np.sqrt(ALPHAS[1])))
    after = only(found).after
    assert after is not None and after.confidence is not None
    assert after.confidence > 0.999 and after.broken == ROWS
    assert only(found).before.broken == ROWS


@pytest.mark.full
def test_increments_over_a_ladder_leave_the_noise(database: Database) -> None:
    """The second version adds to the noise of the first: it tells nothing more."""
    first = draws(1, ALPHAS[0])
    found, _ = tried(database, (first, first + draws(2, ALPHAS[1] - ALPHAS[0])))
    after = only(found).after
    assert after is not None and after.confidence is not None
    assert after.confidence < 0.01 and after.broken < 0.12 * ROWS


def test_rows_that_nothing_tells_apart_are_not_judged(duck: Database) -> None:
    found, _ = tried(duck, (draws(1, 0.2), draws(2, 0.5)), codes=2)
    assert only(found).after is None
    assert "can be told apart" in (only(found).not_judged or "")


def test_without_noise_or_a_second_version_it_is_not_judged(duck: Database) -> None:
    put(duck, "t", np.arange(20.0), 20)
    found = attack(parse(POLICY), duck.engine, names=["noise_levels"])
    assert found.not_judged == {"noise_levels": "it needs another release of the same persons"}
    plain = POLICY.replace("transformations: [additive_noise: {columns: [income], alpha: 0.2}]\n", "")
    found = attack(parse(plain), duck.engine, names=["noise_levels"])
    assert found.not_judged == {
        "noise_levels": "the policy adds no noise to a column, or draws it together again around the mean"
    }
