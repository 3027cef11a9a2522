"""What a release of sets loses: frequent itemsets, and the numbers of persons with two items."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from itemsets_world import asked, fill, released

from sqlanon.evidence.item_checks import item_columns
from sqlanon.evidence.item_loss import find_frequent, measure_itemset_loss
from sqlanon.itemsets.item_tree import tree_of_paths
from sqlanon.itemsets.open_items import open_items
from sqlanon.policy import Policy, Source
from sqlanon.relations.source import relation
from sqlanon.release import publish

LETTERS = {"*": ["X", "Y"], "X": ["a", "b", "c"], "Y": ["d", "e"]}
baskets = st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1, max_size=5), min_size=3, max_size=10)


def measured(database: Database, policy: Policy, number: int) -> Any:
    rows = relation(database.engine.resolve(policy.source), database.engine.dialect)
    source = open_items(database.engine, rows, item_columns(policy))
    try:
        return measure_itemset_loss(policy, database.engine, source, Source(table="r"), number=number)
    finally:
        source.close()


def test_the_worked_example(database: Database) -> None:
    """{ab, abc, acd, bcd, abd} without d: tKd 1/3 for K = 3, 2/5 for K = 5, re 1."""
    persons = [frozenset(each) for each in ("ab", "abc", "acd", "bcd", "abd")]
    fill(database, persons)
    database.run("DROP TABLE IF EXISTS r")
    database.run("CREATE TABLE r AS SELECT who AS person_number, product FROM baskets WHERE product <> 'd'")
    policy = asked([{"km_anonymity": {"k": 2, "m": 1}}])
    for number, lost in ((3, Fraction(1, 3)), (5, Fraction(2, 5))):
        found = measured(database, policy, number)
        assert (found.frequent, 1 - Fraction(found.kept, found.frequent)) == (number, lost)
        assert found.tkd == pytest.approx(float(lost)) and found.relative_error == pytest.approx(1.0)


def counted(persons: list[frozenset[str]]) -> list[tuple[str, ...]]:
    """All sets of two items and more, the most frequent first; then the smaller, then by the alphabet."""
    found: Counter[tuple[str, ...]] = Counter()
    for person in persons:
        for size in range(2, len(person) + 1):
            found.update(combinations(sorted(person), size))
    return sorted(found, key=lambda each: (-found[each], len(each), each))


@settings(max_examples=examples(30))
@given(persons=baskets, number=st.integers(1, 30))
def test_frequent_itemsets_are_the_definition(database: Database, persons: Any, number: int) -> None:
    fill(database, persons)
    policy = asked([{"km_anonymity": {"k": 2, "m": 1}}])
    rows = relation(database.engine.resolve(policy.source), database.engine.dialect)
    items = open_items(database.engine, rows, item_columns(policy))
    try:
        assert find_frequent(items, number) == counted(persons)[:number]
    finally:
        items.close()


def told(shown: list[frozenset[str]], one: str, other: str) -> Fraction:
    """How many persons have two items, as somebody reads it off the labels of a release."""
    ways = {leaf: [leaf, node, "*"] for node in ("X", "Y") for leaf in LETTERS[node]}
    sizes = Counter(label for path in ways.values() for label in path)
    total = Fraction(0)
    for person in shown:
        for first in person & set(ways[one]):
            for second in person & set(ways[other]):
                total += Fraction(1, sizes[first] * sizes[second])
    return total


@settings(max_examples=examples(25))
@given(persons=baskets, k=st.integers(2, 3), whole=st.booleans())
def test_the_error_of_a_release_is_the_definition(database: Database, persons: Any, k: int, whole: bool) -> None:
    fill(database, persons)
    models: list[dict[str, Any]] = [{"k_anonymity": {"k": k}}] if whole else [{"km_anonymity": {"k": k, "m": 2}}]
    made = publish(asked(models, LETTERS, release={"table": "r"}), database.engine, workload=False)
    shown, items = released(database), made.document["items"]
    pairs = Counter(pair for person in persons for pair in combinations(sorted(person), 2))
    if not pairs:
        assert "frequent_itemsets" not in items
        return
    errors = []
    for (one, other), number in pairs.items():
        found = told(shown, one, other)
        errors.append(abs(number - found) / ((number + found) / 2))
    assert items["relative_error"] == pytest.approx(float(sum(errors) / len(errors)))
    before = counted(persons)[:100]
    after = set(counted(shown)[: len(before)])
    assert (items["frequent_itemsets"], items["frequent_itemsets_kept"]) == (len(before), len(after & set(before)))


def test_a_tree_of_paths_covers_its_leaves() -> None:
    tree = tree_of_paths([("a", "X", "*"), ("b", "X", "*"), ("d", "*")], "product")
    assert sorted(tree.leaves_below("X")) == ["a", "b"] and tree.leaves_below("d") == ["d"]
