"""What attackers achieve who know a few items of a person, against all subsets of small random data."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from itemsets_world import asked, fill

from sqlanon.errors import PolicyError
from sqlanon.evidence.item_risk import ATTACKERS, item_risk
from sqlanon.policy import Source
from sqlanon.release import publish

KM = [{"km_anonymity": {"k": 2, "m": 2}}]
baskets = st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1, max_size=4), min_size=1, max_size=8)


def known_sets(person: frozenset[str], most: int) -> Iterable[frozenset[str]]:
    for size in range(1, min(most, len(person)) + 1):
        yield from map(frozenset, combinations(sorted(person), size))


def fewest(persons: list[frozenset[str]], most: int, attacker: str) -> list[int]:
    """For each person the fewest persons who fit what the attacker may know of them."""
    every = frozenset().union(*persons)
    found = []
    for person in persons:
        counts = []
        for known in known_sets(person, most):
            fit = [other for other in persons if known <= other]
            counts.append(len(fit))
            if attacker == ATTACKERS[1]:
                counts.append(sum(len(other) == len(person) for other in fit))
            if attacker == ATTACKERS[2]:
                counts += [sum(item not in other for other in fit) for item in every - person]
        found.append(min(counts))
    return found


@settings(max_examples=examples(40))
@given(persons=baskets, most=st.integers(1, 3))
def test_the_risk_is_the_definition(database: Database, persons: Any, most: int) -> None:
    fill(database, persons)
    found = item_risk(asked(KM), database.engine, knowledge=most)
    assert (found.persons, found.rows) == (len(persons), sum(map(len, persons)))
    longest = max(map(len, persons))
    assert [(item.attacker, item.items) for item in found.known] == [
        (attacker, size) for attacker in ATTACKERS for size in range(1, min(most, longest) + 1)
    ]
    for item in found.known:
        wanted = fewest(persons, item.items, item.attacker)
        assert item.singled_out == wanted.count(1), item
        assert item.fewest == min(wanted)
        assert item.average is not None and abs(item.average - sum(1 / n for n in wanted) / len(wanted)) < 1e-9


@pytest.mark.full_on_postgres
def test_a_release_withstands_what_its_model_promises_and_no_more(database: Database) -> None:
    """2^2-anonymity: two items find nobody, a third may, and so may an item that is not there."""
    fill(database, [each.split() for each in ("a1 b1 b2", "a2 b1", "a2 b1 b2", "a1 a2 b2")])
    tree = {"*": ["A", "B"], "A": ["a1", "a2"], "B": ["b1", "b2"]}
    policy = asked(KM, tree, release={"table": "r"})
    publish(policy, database.engine, workload=False)
    before = item_risk(policy, database.engine, knowledge=2).known
    after = item_risk(policy, database.engine, release=Source(table="r"), knowledge=2).known
    assert [item.singled_out for item in before if item.attacker == ATTACKERS[0]] == [0, 2]
    assert [(item.singled_out, item.fewest) for item in after if item.attacker == ATTACKERS[0]] == [(0, 3), (0, 2)]
    absent = [item.singled_out for item in after if item.attacker == ATTACKERS[2]]
    assert absent[0] > 0


def test_knowledge_of_nothing_is_refused(duck: Database) -> None:
    fill(duck, [["a"]])
    with pytest.raises(PolicyError, match="'knowledge' must be >= 1"):
        item_risk(asked(KM), duck.engine, knowledge=0)
