"""Attacks on sets of items, against all subsets of small random data; and what releases withstand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import brute_itemsets as brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from itemsets_world import asked, fill
from test_item_risk import fewest, known_sets

from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks import attack
from sqlanon.evidence.item_risk import ATTACKERS
from sqlanon.policy import Source
from sqlanon.release import publish

TREE = {"*": ["A", "B"], "A": ["a1", "a2"], "B": ["b1", "b2"]}
FINDING = ["known_items", "one_more_item", "basket_size", "absent_items", "whole_set"]
baskets = st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1, max_size=4), min_size=1, max_size=8)


def matches(persons: list[frozenset[str]], name: str, known: int) -> list[int]:
    """How few persons fit what is known of each."""
    if name == "whole_set":
        return [persons.count(own) for own in persons]
    who = {"basket_size": 1, "absent_items": 2}.get(name, 0)
    return fewest(persons, known + (name == "one_more_item"), ATTACKERS[who])


@settings(max_examples=examples(25))
@given(persons=baskets, k=st.integers(2, 3), known=st.integers(1, 2))
def test_attacks_are_as_in_plain_python(database: Database, persons: Any, k: int, known: int) -> None:
    fill(database, persons)
    found = attack(asked([{"km_anonymity": {"k": k, "m": known}}]), database.engine)
    assert [item.name for item in found.attacks] == FINDING
    assert found.not_judged == {"private_items": "the policy names no private item and no sensitive value"}
    for item in found.attacks:
        sizes = matches(persons, item.name, known)
        assert (item.before.targets, item.before.broken) == (len(persons), sum(n < k for n in sizes)), item.name
        assert item.before.confidence == pytest.approx(1 / min(sizes))
        assert item.before.average == pytest.approx(sum(1 / n for n in sizes) / len(sizes))
        assert item.after is None


def conclusions(persons: list[frozenset[str]], private: str, known: int, *, public: bool) -> list[Fraction]:
    """For each person and private item of theirs, the largest share among those who have some others of them."""
    found = []
    for person in persons:
        for item in sorted(person & set(private)):
            others = person - (set(private) if public else {item})
            shares = [
                Fraction(brute.support(persons, own | {item}), brute.support(persons, own))
                for own in known_sets(others, known)
            ]
            found += [max(shares)] if shares else []
    return found


@settings(max_examples=examples(25))
@given(persons=baskets, known=st.integers(1, 3), public=st.booleans())
def test_conclusions_are_as_in_plain_python(database: Database, persons: Any, known: int, public: bool) -> None:
    fill(database, persons)
    limit = Fraction(3, 4)
    model: dict[str, Any] = (
        {"coherence": {"h": 0.75, "k": 2, "p": known, "private": ["a", "b"]}}
        if public
        else {"rho_uncertainty": {"rho": 0.75, "sensitive": ["a", "b"], "antecedent": known}}
    )
    policy = asked([model], absent_values="allow")
    (item,) = attack(policy, database.engine, names=["private_items"]).attacks
    shares = conclusions(persons, "ab", known, public=public)
    broken = sum(share > limit if public else share >= limit for share in shares)
    assert (item.before.targets, item.before.broken) == (len(shares), broken)
    if shares:
        assert item.before.confidence == pytest.approx(float(max(shares)))
        assert item.before.average == pytest.approx(float(sum(shares) / len(shares)))


@pytest.mark.full_on_postgres
def test_km_anonymity_withstands_m_items_and_not_what_it_does_not_promise(database: Database) -> None:
    fill(database, [each.split() for each in ("a1 b1 b2", "a2 b1", "a2 b1 b2", "a1 a2 b2")])
    policy = asked([{"km_anonymity": {"k": 2, "m": 2}}], TREE, release={"table": "r"})
    publish(policy, database.engine, workload=False)
    tried = attack(policy, database.engine, release=Source(table="r")).attacks
    found = {item.name: item for item in tried if item.after is not None}
    assert found["known_items"].before.broken == 2
    assert {name: item.after.broken for name, item in found.items() if item.after} == {
        "known_items": 0,
        "one_more_item": 0,
        "basket_size": 2,
        "absent_items": 2,
        "whole_set": 2,
    }  # by hand: {A b1 b2} twice, {A b1} and {A b2}


def test_a_coherent_release_withstands_conclusions(database: Database) -> None:
    fill(database, [each.split() for each in ("a c f x", "a b c y", "b d f x", "b c e", "a c f y")])
    model = {"coherence": {"h": 0.8, "k": 2, "p": 2, "private": ["x", "y"]}}
    policy = asked([model], release={"table": "r"}, suppression_limit=1.0)
    publish(policy, database.engine, workload=False)
    asked_for = ["private_items", "known_items"]
    known, private = attack(policy, database.engine, release=Source(table="r"), names=asked_for).attacks
    assert private.before.broken > 0 and private.after is not None and private.after.broken == 0
    assert private.after.confidence is not None and private.after.confidence <= 0.8
    # It does not protect from somebody who knows private items, and this attacker does.
    assert known.after is not None and known.after.broken == 2


def test_sensitive_values_are_concluded_too(database: Database) -> None:
    fill(database, [["a"], ["a"], ["a", "b"]], ["HIV", "flu", "HIV"])
    policy = asked([{"lkc_privacy": {"l": 2, "k": 2, "c": 0.7, "guarded": ["HIV"]}}], values=True)
    (item,) = attack(policy, database.engine, names=["private_items"]).attacks
    # Of two persons with HIV the one is concluded with 2/3, the other from b with certainty.
    assert (item.before.targets, item.before.broken, item.before.confidence) == (2, 1, 1.0)
    assert item.before.average == pytest.approx((2 / 3 + 1) / 2)


def test_what_attacks_on_sets_do_not_take(duck: Database) -> None:
    fill(duck, [["a"]])
    policy = asked([{"km_anonymity": {"k": 2, "m": 1}}])
    with pytest.raises(PolicyError, match="no attack on sets of items called 'known_item'"):
        attack(policy, duck.engine, names=["known_item"])
    with pytest.raises(PolicyError, match="'knowledge' must be >= 1"):
        attack(policy, duck.engine, knowledge=0)
    with pytest.raises(PolicyError, match="'certainty' means nothing for attacks on sets of items"):
        attack(policy, duck.engine, certainty=0.5)
    with pytest.raises(PolicyError, match="a further table means nothing"):
        attack(policy, duck.engine, external=Source(table="baskets"))


def test_a_giant_basket_is_not_counted(duck: Database) -> None:
    duck.run(
        "CREATE OR REPLACE TABLE baskets AS SELECT 1 AS who, CAST(i AS TEXT) AS product FROM RANGE(100000) AS r(i)"
    )
    found = attack(asked([{"km_anonymity": {"k": 2, "m": 2}}]), duck.engine)
    assert [item.name for item in found.attacks] == ["whole_set"]
    assert "would be counted" in found.not_judged["known_items"]


def test_an_empty_table_has_nobody_to_look_for(database: Database) -> None:
    fill(database, [])
    found = attack(asked([{"km_anonymity": {"k": 2, "m": 2}}]), database.engine)
    assert {item.before.targets for item in found.attacks} == {0}
