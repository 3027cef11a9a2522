"""Attacks on journeys against plain Python: by a few visits, by places, by the ends, by the whole journey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import brute_paths as brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from test_choose_doublets import DISEASES, TABLE_IX
from test_publish_journeys import make_policy, some_paths, with_stays

from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks import attack
from sqlanon.policy import Source
from sqlanon.release import publish


def in_order(path: brute.Path) -> list[tuple[int, str]]:
    return sorted((int(doublet[1:]), doublet[0]) for doublet in path)


def home_and_work(path: brute.Path) -> Any:
    counts = Counter(doublet[0] for doublet in path)
    return sorted(counts, key=lambda place: (-counts[place], place))[:2]


SIGNATURES: dict[str, Callable[[brute.Path], Any]] = {
    "home_and_work": home_and_work,
    "first_and_last": lambda path: (in_order(path)[0], in_order(path)[-1]),
    "whole_journey": in_order,
}


def matches(paths: Sequence[brute.Path], name: str, known: int) -> list[int]:
    """For each person, among how many they are found."""
    if name == "known_visits":
        return [min(len(brute.matching(paths, q)) for q in brute.subsequences(path, known)) for path in paths]
    shown = [repr(SIGNATURES[name](path)) for path in paths]
    return [shown.count(own) for own in shown]


def assert_attacked(database: Database, paths: Sequence[brute.Path], known: int, k: int) -> None:
    policy = make_policy([{"km_anonymity": {"k": k, "m": 1}}], suppression_limit=1.0)
    found = attack(policy, database.engine, knowledge=known)
    assert [item.name for item in found.attacks] == ["known_visits", *SIGNATURES]
    for item in found.attacks:
        sizes = matches(paths, item.name, known)
        assert (item.before.targets, item.before.broken) == (len(paths), sum(size < k for size in sizes)), item.name
        assert item.before.confidence == pytest.approx(1 / min(sizes))
        assert item.before.average == pytest.approx(sum(1 / size for size in sizes) / len(sizes))
        assert item.after is None
    assert "places are not moved" in found.not_judged["nearest_path"]


@settings(max_examples=examples(25))
@given(some_paths)
def test_attacks_are_as_in_plain_python(duck: Database, paths: list[brute.Path]) -> None:
    with_stays(duck, paths, ["Flu"] * 9)
    assert_attacked(duck, paths, 2, 3)


def test_attacks_on_table_ix(database: Database) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    assert_attacked(database, TABLE_IX, 3, 2)


def test_lkc_withstands_as_many_visits_as_it_says(database: Database) -> None:
    """Nobody is found by two visits; by their whole journeys, which are more, persons are."""
    with_stays(database, TABLE_IX, DISEASES)
    policy = make_policy()
    publish(policy, database.engine)
    found = {
        item.name: item for item in attack(policy, database.engine, release=Source(table="stays_released")).attacks
    }
    visits, whole = found["known_visits"], found["whole_journey"]
    assert visits.params == {"knowledge": 2}
    assert visits.before.broken > 0 and visits.after is not None and visits.after.broken == 0
    assert whole.after is not None and whole.after.broken > 0


def test_what_attacks_on_journeys_do_not_take(duck: Database) -> None:
    with_stays(duck, TABLE_IX, DISEASES)
    with pytest.raises(PolicyError, match="no attack on journeys called 'linkage'"):
        attack(make_policy(), duck.engine, names=["linkage"])
    with pytest.raises(PolicyError, match="'gain' means nothing"):
        attack(make_policy(), duck.engine, gain=0.5)
    with pytest.raises(PolicyError, match="a further table means nothing"):
        attack(make_policy(), duck.engine, other=Source(table="stays"))
