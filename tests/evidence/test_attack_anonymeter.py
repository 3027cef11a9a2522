"""Advantages beside what Anonymeter measures on the same releases; its numbers are in tests/oracles/numbers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import Database

from sqlanon.evidence.attacks import attack
from sqlanon.evidence.attacks.success_rates import residual, success_rate
from sqlanon.policy import Source, parse

MEASURED: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "oracles" / "numbers" / "anonymeter.json").read_text(encoding="utf-8")
)
POLICY = """
source: {table: members}
columns: {age: quasi_identifier, income: quasi_identifier, town: quasi_identifier, secret: sensitive}
hierarchies: {age: {intervals: {widths: [20]}}, income: {intervals: {widths: [50]}}}
models: [k_anonymity: {k: 2}]
"""
NOISY = POLICY + "transformations: [{additive_noise: {columns: [age, income], alpha: 0.01}}]\n"
KINDS = {"age": "INTEGER", "income": "INTEGER", "town": "TEXT", "secret": "TEXT"}
Rows = list[tuple[Any, ...]]


def people(seed: int = 20221018, size: int = 500) -> dict[str, Rows]:
    """Persons of the source and of the control group, and two releases: with noise, and in classes by their lower ends.
    The secret goes with the age."""
    drawn = random.Random(seed)
    made: dict[str, Rows] = {}
    for part in ("members", "control"):
        made[part] = []
        for _ in range(size):
            age, income = drawn.randrange(18, 90), drawn.randrange(10, 200)
            town = "ABCDE"[drawn.randrange(5)]
            secret = "wxyz"[(age // 24 + drawn.choice([0, 0, 1, 2, 3])) % 4]
            made[part].append((age, income, town, secret))
    made["noisy"] = [(a + drawn.choice([-1, 0, 1]), i + drawn.randrange(-3, 4), t, s) for a, i, t, s in made["members"]]
    made["classes"] = [(a // 20 * 20, i // 50 * 50, t, s) for a, i, t, s in made["members"]]
    return made


@pytest.fixture
def releases(database: Database) -> Database:
    made = people()
    for name in ("members", "control", "noisy"):
        database.table(name, KINDS, [dict(zip(KINDS, row, strict=True)) for row in made[name]])
    labels = [(f"[{a}, {a + 20})", f"[{i}, {i + 50})", t, s) for a, i, t, s in made["classes"]]
    kinds = dict.fromkeys(KINDS, "TEXT")
    database.table("classes", kinds, [dict(zip(KINDS, row, strict=True)) for row in labels])
    return database


@pytest.mark.full_on_postgres
def test_the_nearest_record_guesses_as_anonymeter_does(releases: Database) -> None:
    """Noise leaves one record nearest to most persons, so that the guesses are the same: all rates and the advantage
    are within its intervals."""
    wanted = MEASURED["noisy"]
    found = attack(
        parse(NOISY), releases.engine, release=Source(table="noisy"), control=Source(table="control"),
        names=["distance_linkage"],
    )  # fmt: skip
    (made,) = found.advantages
    assert made.control is not None and made.attacked.guesses == made.control.guesses == wanted["attacks"]
    assert abs(made.attacked.rate - wanted["attack_rate"]) <= wanted["attack_error"]
    assert abs(made.control.rate - wanted["control_rate"]) <= wanted["control_error"]
    assert abs(made.attacked.right - wanted["right"]) <= 5 and abs(made.control.right - wanted["right_in_control"]) <= 5
    assert wanted["low"] <= made.advantage <= wanted["high"] and made.low <= wanted["risk"] <= made.high
    assert made.finding


@pytest.mark.full_on_postgres
def test_in_classes_anonymeter_takes_any_record_and_we_the_most_frequent_value(releases: Database) -> None:
    """Its attacker takes one of the records that fit: it is right as often as the share of a person's own value says,
    which the belief without learning measures. Ours takes the most frequent value, and is right more often."""
    wanted = MEASURED["classes"]
    found = attack(
        parse(POLICY), releases.engine, release=Source(table="classes"), control=Source(table="control"),
        names=["attribute_linkage", "definetti"], rounds=0,
    )  # fmt: skip
    expected = {item.name: item.after for item in found.attacks}["definetti"]
    assert expected is not None and expected.average is not None
    assert abs(expected.average - wanted["attack_rate"]) <= wanted["attack_error"]
    ours = {item.attack: item for item in found.advantages}["attribute_linkage"]
    assert ours.attacked.rate >= expected.average and ours.advantage >= wanted["risk"] and ours.finding


@pytest.mark.parametrize("case", MEASURED["residual"], ids=lambda case: f"{case['right']} of {case['attacks']}")
def test_the_advantage_is_the_residual_risk_of_anonymeter(case: dict[str, Any]) -> None:
    ours = success_rate(case["attacks"], case["right"])
    theirs = success_rate(case["control_attacks"], case["right_in_control"])
    value, low, high = residual(ours, theirs)
    assert value == pytest.approx(case["value"], abs=1e-12)
    own = (case["value"] - case["error"], min(case["value"] + case["error"], 1))
    if own[0] > 0:  # the rates differ: its interval is ours
        assert (low, high) == (pytest.approx(own[0], abs=1e-12), pytest.approx(own[1], abs=1e-12))
    else:
        assert low <= own[0] and high >= own[1]


@pytest.mark.parametrize("name", ["noisy", "classes"])
def test_the_rates_of_anonymeter_are_ours(name: str) -> None:
    wanted = MEASURED[name]
    for right, rate in (("right", "attack"), ("right_in_control", "control")):
        made = success_rate(wanted["attacks"], wanted[right])
        center, error = wanted[f"{rate}_rate"], wanted[f"{rate}_error"]
        assert (made.low, made.high) == (pytest.approx(center - error), pytest.approx(center + error))
    value, low, high = residual(
        success_rate(wanted["attacks"], wanted["right"]), success_rate(wanted["attacks"], wanted["right_in_control"])
    )
    assert (value, low, high) == tuple(pytest.approx(wanted[key]) for key in ("risk", "low", "high"))
