"""Personalized privacy: what a release tells of guarding nodes, by the definition in plain Python."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from parting import publish_anew as publish
from sqlglot import exp
from transforming import KEY, OTHER_KEY, load

import sqlanon
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.policy import Source
from sqlanon.release.plan_refresh import plan_refresh

TYPES = {
    "id": "BIGINT",
    "tag": "INTEGER",
    "age": "INTEGER",
    "sex": "VARCHAR",
    "disease": "VARCHAR",
    "guarding": "VARCHAR",
}
TREE = {"*": {"lung": {"infect": ["flu", "pneumonia"], "asthma": None}, "stomach": ["ulcer", "gastritis", "cramp"]}}
PARENTS = {"flu": "infect", "pneumonia": "infect", "infect": "lung", "asthma": "lung", "lung": "*"}
PARENTS |= dict.fromkeys(["ulcer", "gastritis", "cramp"], "stomach") | {"stomach": "*"}
LEAVES = [name for name in PARENTS if name not in PARENTS.values()]
GUARDS = ["flu", "infect", "lung", "ulcer", "stomach", None]


def up(node: str) -> list[str]:
    return [node, *(up(PARENTS[node]) if node in PARENTS else [])]


def told(guard: str, node: str) -> Fraction:
    """How likely a record that shows a node lies below a guarding node: each leaf of the node counts the same."""
    below = [leaf for leaf in LEAVES if node in up(leaf)]
    return Fraction(sum(guard in up(leaf) for leaf in below), len(below))


def breach(rows: Sequence[tuple[Any, Any, str, str | None]]) -> Fraction:
    """The largest over all records with a guarding node; a record is an age, a sex, what it shows, and that node."""
    classes: dict[Any, list[tuple[str, str | None]]] = defaultdict(list)
    for age, sex, node, guard in rows:
        classes[age, sex].append((node, guard))
    worst = Fraction(0)
    for members in classes.values():
        for _, guard in members:
            if guard is not None:
                worst = max(worst, sum((told(guard, node) for node, _ in members), Fraction(0)) / len(members))
    return worst


def people(count: int, seed: int = 1, guards: Sequence[str | None] = GUARDS) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "id": tag,
            "tag": tag,
            "age": draw.randrange(40),
            "sex": draw.choice("fm"),
            "disease": draw.choice(LEAVES),
            "guarding": draw.choice(guards),
        }
        for tag in range(count)
    ]


def personal(p_breach: float = 0.5, **changes: Any) -> sqlanon.Policy:
    written: dict[str, Any] = {
        "source": {"table": "people"},
        "columns": {
            "id": "identifier",
            "guarding": "identifier",
            "tag": "insensitive",
            "age": "quasi_identifier",
            "sex": "quasi_identifier",
            "disease": "sensitive",
        },
        "hierarchies": {"age": {"intervals": {"widths": [5, 10, 20]}}, "disease": {"tree": {"tree": TREE}}},
        "models": [{"k_anonymity": {"k": 3}}],
        "suppression_limit": 0.1,
        "algorithm": {"personalized": {"p_breach": p_breach, "guard": "guarding"}},
        "release": {"table": "released"},
    }
    return sqlanon.parse(json.dumps({**written, **changes}))


def require_right(database: Database, rows: list[dict[str, Any]], p_breach: float) -> list[tuple[Any, ...]]:
    truth = {row["tag"]: row for row in rows}
    found = database.fetch("SELECT age, sex, disease, tag FROM released")
    for _, _, node, tag in found:
        assert node in up(truth[tag]["disease"])
    shown = [(age, sex, node, truth[tag]["guarding"]) for age, sex, node, tag in found]
    assert breach(shown) <= Fraction(str(p_breach))
    return found


@pytest.mark.full
@pytest.mark.parametrize("p_breach", [0.6])
def test_nobody_is_linked_below_a_guarding_node(database: Database, p_breach: float) -> None:
    rows = people(60)
    load(database, "people", TYPES, rows)
    done = publish(personal(p_breach), database.engine, secret=KEY)
    assert done.evidence is not None and done.evidence.holds
    found = require_right(database, rows, p_breach)
    assert done.document["released"] == len(found) >= 54
    kept = sum(node in LEAVES for _, _, node, _ in found) / len(found)
    assert kept > 0.4  # not everything went up
    names = [item.name for item in database.engine.columns(exp.select("*").from_("released"))]
    assert names == ["tag", "age", "sex", "disease"]
    assert set(database.engine.tables()) - {"sqlanon_releases"} == {"people", "released"}


@pytest.mark.full
@settings(max_examples=examples(3))
@given(seed=st.integers(0, 1000), count=st.integers(8, 20))
def test_every_table_is_protected(duck: Database, seed: int, count: int) -> None:
    protect(duck, seed, count)


@pytest.mark.long
@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**9), count=st.integers(6, 60))
def test_every_table_is_protected_at_length(duck: Database, seed: int, count: int) -> None:
    protect(duck, seed, count)


def protect(duck: Database, seed: int, count: int) -> None:
    rows = people(count, seed)
    load(duck, "people", TYPES, rows)
    duck.run("DROP TABLE IF EXISTS released")
    duck.run("DROP TABLE IF EXISTS sqlanon_releases")
    publish(personal(0.5), duck.engine, secret=KEY)
    require_right(duck, rows, 0.5)


def test_who_does_not_care_changes_nothing(duck: Database) -> None:
    rows = people(80, guards=[None])
    load(duck, "people", TYPES, rows)
    done = publish(personal(0.2), duck.engine, secret=KEY)
    assert done.document["groups"]["sensitive_loss"] == 0
    truth = {row["tag"]: row["disease"] for row in rows}
    assert all(truth[tag] == disease for tag, disease in duck.fetch("SELECT tag, disease FROM released"))


@pytest.mark.full
def test_as_few_values_as_it_takes_go_up(duck: Database) -> None:
    """Ten alike, four with flu, one of whom guards it: two of them may show it (0.2), and two go one level up, where it
    is told with one half each: 0.3 in all."""
    rows = [
        {"id": i, "tag": i, "age": 1, "sex": "f", "disease": "flu" if i < 4 else "ulcer", "guarding": None}
        for i in range(10)
    ]
    rows[0]["guarding"] = "flu"
    load(duck, "people", TYPES, rows)
    drawn = set()
    for key in (KEY, OTHER_KEY, KEY + OTHER_KEY):
        publish(personal(0.3), duck.engine, secret=key)
        found = require_right(duck, rows, 0.3)
        assert sorted(node for _, _, node, _ in found) == ["flu"] * 2 + ["infect"] * 2 + ["ulcer"] * 6
        drawn.add(frozenset(tag for _, _, node, tag in found if node == "flu"))
    assert len(drawn) > 1  # which of them is drawn


@pytest.mark.full
def test_one_secret_gives_one_release_on_both_engines(duck: Database, postgres: Database) -> None:
    found = []
    for database in (duck, postgres):
        load(database, "people", TYPES, people(30))
        publish(personal(), database.engine, secret=KEY)
        found.append(sorted(database.fetch("SELECT tag, age, sex, disease FROM released"), key=str))
    assert found[0] == found[1]


@pytest.mark.full
def test_a_release_is_checked_as_written(database: Database) -> None:
    rows = people(30)
    load(database, "people", TYPES, rows)
    publish(personal(), database.engine, secret=KEY)
    release = Source(table="released")
    again = check(personal(), database.engine, release=release)
    assert again.holds and any("looked at when it was published" in note for note in again.notes)
    # With the guarding nodes beside it, as it was staged.
    database.run("CREATE TABLE beside AS SELECT r.*, p.guarding FROM released AS r JOIN people AS p ON p.tag = r.tag")
    beside = Source(table="beside")
    assert check(personal(), database.engine, release=beside, hidden=["guarding"]).holds
    assert not check(personal(), database.engine, release=beside).holds  # an identifier
    database.run("UPDATE beside SET disease = 'flu', guarding = 'infect'")
    found = check(personal(), database.engine, release=beside, hidden=["guarding"])
    assert "somebody is linked to what lies below a guarding node with more than 0.5" in found.breaches
    database.run("UPDATE beside SET disease = 'plague'")
    found = check(personal(), database.engine, release=beside, hidden=["guarding"])
    assert "'disease' or 'guarding' holds what is not in the taxonomy" in found.breaches


def test_a_plan_writes_nothing(duck: Database) -> None:
    load(duck, "people", TYPES, people(60))
    found = plan_refresh(personal(), duck.engine, secret=KEY)
    assert found.refused is None and found.document is not None and found.document["holds"]
    assert duck.engine.tables() == ["people"]


ROLES = {"id": "identifier", "guarding": "identifier", "tag": "insensitive", "age": "quasi_identifier"}
ROLES |= {"sex": "quasi_identifier", "disease": "sensitive"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "changes", "said"),
    [
        ({}, {"columns": ROLES | {"guarding": "insensitive"}}, "must be an identifier"),
        ({}, {"algorithm": {"personalized": {"p_breach": 0.5, "guard": "guard"}}}, "must be an identifier"),
        ({}, {"algorithm": {"personalized": {"p_breach": 1.0, "guard": "guarding"}}}, "p_breach"),
        ({}, {"hierarchies": {"age": {"intervals": {"widths": [5]}}}}, "has no taxonomy"),
        ({}, {"models": [{"distinct_l_diversity": {"l": 2}}]}, "in place of values"),
        ({"guarding": "*"}, {}, "nothing can hide that"),
        ({"guarding": "skin"}, {}, "names nodes that the taxonomy"),
        ({"disease": "plague"}, {}, "does not have, or NULL"),
        ({"disease": None}, {}, "does not have, or NULL"),
    ],
)
def test_what_is_refused(duck: Database, change: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    rows = people(40)
    rows[3] |= change
    load(duck, "people", TYPES, rows)
    with pytest.raises(PolicyError) as error:
        publish(personal(**changes), duck.engine, secret=KEY)
    assert said in f"{error.value.message} {error.value.detail} {error.value.hint}"
    assert duck.engine.tables() == ["people"]
