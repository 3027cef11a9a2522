"""Reconstruction by many random counts (Dinur and Nissim 2003), carried out against the gateway.

A count over a random set of persons tells little of each; from a few hundred of them, least squares give every person's
bit back, unless their noise adds up. The budget is the one that the example of a gateway ships.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import ROOT
from gateway_world import EXACT, World, people, policy, world

from sqlanon.errors import BudgetExhausted
from sqlanon.gateway.price.noise import Mechanisms

Array = np.ndarray[Any, Any]
PERSONS = 80
STATEMENTS = 160
SHIPPED: dict[str, Any] = yaml.safe_load((ROOT / "examples/gateway/policy.yml").read_text("utf-8"))["gateway"]
for _limit in SHIPPED["budget"].values():
    _limit["delta"] = float(_limit["delta"])  # YAML 1.1 reads 1e-7 as text
TRIALS = 3
# A right gateway is blamed in 1 of 2,000 cases, on either side.
TAIL = 0.0005
SIMULATIONS = 20_000


@dataclass(frozen=True)
class Found:
    """What came back in all trials, and what the same attack gets from answers with the noise that is declared."""

    agreement: float
    answered: int  # statements, in each trial
    low: float
    expected: float
    high: float


def asked(folder: Path, mechanisms: Mechanisms | None, budget: Any, trial: int) -> tuple[World, Array]:
    """A gateway over persons with a secret bit each, half of them 1, in an order that is drawn."""
    secret = np.random.default_rng(700 + trial).permutation([place % 2 for place in range(PERSONS)])
    tables = people(PERSONS)
    for row in tables["users"]:
        row["home"] = f"R{secret[row['user_id'] - 1]}"
    return world(folder, tables, given=policy(budget=budget, rows=1), mechanisms=mechanisms), secret


def answers_of(here: World, epsilon: float, trial: int) -> tuple[Array, Array]:
    """The sets that were asked for, and their counts, until the budget is spent."""
    draws = np.random.default_rng(1100 + trial)
    sets: list[Array] = []
    answers: list[float] = []
    for _ in range(STATEMENTS):
        chosen = draws.integers(0, 2, PERSONS)
        listed = ", ".join(str(place + 1) for place in np.flatnonzero(chosen))
        statement = f"SELECT COUNT(*) FROM users WHERE home = 'R1' AND user_id IN ({listed})"
        try:
            ((count,),) = here.gate.answer(statement, epsilon=epsilon).rows
        except BudgetExhausted:
            break
        sets.append(chosen)
        answers.append(float(count))
    return np.array(sets), np.array(answers)


def reconstructed(sets: Array, answers: Array) -> Array:
    """The bits that least squares give, from one list of answers or from many at once, a column each."""
    # A little pull towards one half, which is known of a bit before: fewer statements than bits are solved, too.
    solver = np.linalg.pinv(np.vstack([sets, 0.1 * np.eye(PERSONS)]))
    solved = solver[:, : len(sets)] @ answers + solver[:, len(sets) :] @ np.full((PERSONS, *answers.shape[1:]), 0.05)
    return (solved > 0.5).astype(int)


def simulated(sets: Array, secret: Array, epsilon: float, trial: int) -> Array:
    """The same attack on true counts with discrete Laplace noise of scale 1 / epsilon, drawn here: a share of bits for
    each of many simulations."""
    draws = np.random.default_rng(1900 + trial)
    shape = (len(sets), SIMULATIONS)
    noise = draws.geometric(-np.expm1(-epsilon), shape) - draws.geometric(-np.expm1(-epsilon), shape)
    return np.mean(reconstructed(sets, (sets @ secret)[:, None] + noise) == secret[:, None], axis=0)


def attacked(
    folder: Path,
    epsilon: float,
    mechanisms: Mechanisms | None = None,
    budget: Any = SHIPPED["budget"],
    trials: int = TRIALS,
) -> Found:
    """Several gateways are attacked, each with other bits and other sets of persons."""
    found, baseline, answered = 0.0, np.zeros(SIMULATIONS), []
    for trial in range(trials):
        place = folder / str(trial)
        place.mkdir()
        here, secret = asked(place, mechanisms, budget, trial)
        try:
            sets, answers = answers_of(here, epsilon, trial)
        finally:
            here.close()
        found += float(np.mean(reconstructed(sets, answers) == secret)) / trials
        baseline += simulated(sets, secret, epsilon, trial) / trials
        answered.append(len(sets))
    assert len(set(answered)) == 1
    low, high = np.quantile(baseline, [TAIL, 1 - TAIL])
    return Found(found, answered[0], float(low), float(baseline.mean()), float(high))


@pytest.mark.full
@pytest.mark.parametrize(("epsilon", "expected"), [(5.0 / STATEMENTS, 0.520), (0.05, 0.516), (0.5, 0.561)])
def test_the_budget_leaves_a_reconstruction_near_chance(tmp_path: Path, epsilon: float, expected: float) -> None:
    """Spread over all statements, spent on a few, or by default: the ledger ends it, or the noise. The attack gets no
    more than from the noise that is declared, which is 52, 52 and 56 of 100 bits where guessing gets 50."""
    found = attacked(tmp_path, epsilon)
    assert found.answered <= round(SHIPPED["budget"]["principal"]["epsilon"] / epsilon)
    assert found.expected == pytest.approx(expected, abs=0.005) and found.high < 0.64
    assert found.low <= found.agreement <= found.high, found


@pytest.mark.full
def test_without_noise_the_same_statements_give_all_bits_back(tmp_path: Path) -> None:
    """The control: the attack works, and the test above can fail."""
    found = attacked(tmp_path, 5.0 / STATEMENTS, EXACT, trials=1)
    assert found.answered == STATEMENTS
    assert found.agreement == 1.0 > found.high


@pytest.mark.full
def test_far_beyond_the_budget_the_bits_come_back(tmp_path: Path) -> None:
    """The same noise at twenty times the budget: 84 of 100 bits are expected, which no trial above comes near."""
    large = {"statement": {"epsilon": 1, "delta": 1e-7}, "principal": {"epsilon": 100, "delta": 1e-5}}
    found = attacked(tmp_path, 100.0 / STATEMENTS, budget=large, trials=1)
    assert found.answered == STATEMENTS
    assert found.expected == pytest.approx(0.845, abs=0.005)
    assert found.low <= found.agreement <= found.high, found
