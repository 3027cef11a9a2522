"""A control group that is set aside before the release is made, on both engines."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import Database

import sqlanon as sa
from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.evidence import attacks
from sqlanon.evidence.attacks import Attacks
from sqlanon.policy import Policy, parse
from sqlanon.release import hold_out_persons
from sqlanon.release.hold_out_persons import attack_policy

COLUMNS = {"id": "INTEGER", "age": "INTEGER", "town": "TEXT", "disease": "TEXT"}
POLICY = """
source: {table: patients}
person: id
columns: {id: identifier, age: quasi_identifier, town: quasi_identifier, disease: sensitive}
hierarchies: {age: {intervals: {widths: [2, 10]}}}
models: [k_anonymity: {k: %d}]
suppression_limit: 0.2
"""
NAMES = ("attribute_linkage", "homogeneity", "linkage", "membership")


def patients(size: int, each: int = 1) -> list[dict[str, Any]]:
    """Diseases are drawn: what the others have tells nothing about a person who is not among them."""
    drawn = random.Random(11)
    return [
        {
            "id": number // each,
            "age": drawn.randrange(20, 90),
            "town": drawn.choice(["Athens", 'Bern "old"', "Cork"]),
            "disease": drawn.choice(["flu", "cold", "hiv", "gout"]),
        }
        for number in range(size)
    ]


def policy(k: int = 2) -> Policy:
    return parse(POLICY % k)


def left_over(database: Database) -> int:
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE '%sqlanon%'"
    return int(database.fetch(tables)[0][0])


@pytest.mark.full
@pytest.mark.full_on_postgres
def test_a_fine_release_tells_about_its_persons_and_a_coarse_one_does_not(database: Database) -> None:
    database.table("patients", COLUMNS, patients(600))
    fine = attack_policy(policy(2), database.engine, holdout=0.25, names=NAMES)
    found = {item.attack: item for item in fine.advantages}["attribute_linkage"]
    assert found.targets == 450 and found.control_targets == 150 and found.against == "control"
    assert found.finding and found.counts == "persons"
    coarse = attack_policy(policy(100), database.engine, holdout=0.25, names=NAMES)
    assert len(coarse.advantages) == 3 and coarse.findings == ()
    assert all(item.low <= 0 <= item.high for item in coarse.advantages)
    assert any("150 of 600 persons were set aside" in note for note in coarse.notes)
    assert left_over(database) == 0


@pytest.mark.full
@pytest.mark.full_on_postgres
def test_both_groups_are_persons_of_the_source_and_no_person_is_in_both(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.table("patients", COLUMNS, patients(300, each=3))
    seen: dict[str, tuple[list[Any], list[Any]]] = {}

    def look(own: Policy, engine: Engine, **asked: Any) -> Attacks:
        parts = [
            database.fetch(f"SELECT id, age, town, disease FROM {name} ORDER BY 1, 2, 3, 4")
            for name in (hold_out_persons.MEMBERS, hold_out_persons.HELD)
        ]
        seen[str(asked.pop("key", len(seen)))] = (parts[0], parts[1])
        return attacks.attack(own, engine, **asked)

    monkeypatch.setattr(hold_out_persons, "attack", look)
    for secret in (None, None, "another key"):
        attack_policy(policy(), database.engine, holdout=0.1, secret=secret, names=["linkage"])
    every = database.fetch("SELECT id, age, town, disease FROM patients ORDER BY 1, 2, 3, 4")
    for members, held in seen.values():
        assert sorted([*members, *held]) == sorted(every)
        assert len({row[0] for row in held}) == 10 and not {row[0] for row in held} & {row[0] for row in members}
    assert seen["0"] == seen["1"] != seen["2"]


def test_a_source_without_persons(duck: Database) -> None:
    duck.table("patients", COLUMNS, patients(200))
    plain = parse((POLICY % 2).replace("person: id\n", ""))
    found = attack_policy(plain, duck.engine, holdout=0.5, names=["attribute_linkage"])
    assert found.advantages[0].targets == found.advantages[0].control_targets == 100
    assert any("names no person" in note for note in found.notes)


@pytest.mark.parametrize(
    ("change", "holdout", "message"),
    [
        ("", 0.0, "between 0 and 1"),
        ("", 1.0, "between 0 and 1"),
        ("", float("nan"), "between 0 and 1"),
        ("nulls: unique\n", 0.1, "match nothing"),
        ("algorithm: {anatomy: {l: 2}}\n", 0.1, "anatomy writes rows itself"),
    ],
)
def test_what_cannot_be_divided_is_refused(duck: Database, change: str, holdout: float, message: str) -> None:
    duck.table("patients", COLUMNS, patients(50))
    text = (
        (POLICY % 2).replace("k_anonymity: {k: 2}", "distinct_l_diversity: {l: 2}")
        if "anatomy" in change
        else POLICY % 2
    )
    with pytest.raises(PolicyError, match=message):
        attack_policy(parse(text + change), duck.engine, holdout=holdout)
    assert left_over(duck) == 0


def test_too_few_persons_and_rows_of_nobody(duck: Database) -> None:
    duck.table("patients", COLUMNS, patients(1))
    with pytest.raises(PolicyError, match="too few"):
        attack_policy(policy(), duck.engine, holdout=0.1)
    duck.table("patients", COLUMNS, [*patients(20), {"id": None, "age": 30, "town": "Cork", "disease": "flu"}])
    with pytest.raises(PolicyError, match="1 rows have no 'id'"):
        attack_policy(policy(), duck.engine, holdout=0.1)
    duck.table("patients", COLUMNS, [])
    with pytest.raises(PolicyError, match="too few"):
        attack_policy(policy(), duck.engine, holdout=0.1)
    duck.table("patients", COLUMNS, patients(6))
    with pytest.raises(PolicyError):  # five persons left for classes of fifty
        attack_policy(policy(50), duck.engine, holdout=0.2)
    assert left_over(duck) == 0


def test_from_rows_in_memory() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(patients(300))
    given = {
        "person": "id",
        "columns": {"id": "identifier", "age": "quasi_identifier", "town": "quasi_identifier", "disease": "sensitive"},
        "models": [{"k_anonymity": {"k": 2}}],
        "suppression_limit": 0.2,
    }
    found = sa.attack(rows, policy=given, holdout=0.2, names=["attribute_linkage"])
    assert found.advantages[0].control_targets == 60
    with pytest.raises(PolicyError, match="it does not go with 'release'"):
        sa.attack(rows, policy=given, release=rows, holdout=0.2)
    members, others = rows[rows["id"] < 200], rows[rows["id"] >= 200]
    beside = sa.attack(members, members, policy=given, control=others, names=["attribute_linkage"])
    assert beside.advantages[0].control_targets == 100 and beside.findings
