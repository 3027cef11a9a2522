"""Private items in groups: worked by hand, by properties, and what a table that was tampered with shows."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from itemsets_world import asked, fill

from sqlanon.algorithms.permutation import group_nearest
from sqlanon.errors import NotReleased, PolicyError, SourceError
from sqlanon.evidence.attacks import attack
from sqlanon.evidence.checks import check
from sqlanon.policy import Source
from sqlanon.release import publish

PRIVATE = ["x", "y"]
PHARMACY = [  # by hand: wine and meat are bought most, so that Bob, David and Ellen are neighbours
    {"wine", "meat", "viagra"},
    {"wine", "meat"},
    {"meat", "cream", "pregnancy test"},
    {"cream", "strawberries"},
    {"wine", "meat", "cream"},
]
baskets = st.lists(st.frozensets(st.sampled_from("abcxy"), min_size=1, max_size=5), min_size=2, max_size=12)


def degree(p: int, private: list[str] | None = None) -> list[dict[str, Any]]:
    return [{"privacy_degree": {"p": p, "private": private or PRIVATE}}]


def groups_of(database: Database, name: str = "r") -> dict[int, tuple[list[frozenset[str]], Counter[str]]]:
    """Public sets and private items of each group of a release."""
    persons: dict[tuple[int, int], set[str]] = {}
    for group, number, item in database.fetch(f"SELECT sqlanon_group, person_number, product FROM {name}"):
        persons.setdefault((group, number), set()).add(item)
    found: dict[int, tuple[list[frozenset[str]], Counter[str]]] = {}
    for (group, _), items in persons.items():
        found.setdefault(group, ([], Counter()))[0].append(frozenset(items))
    for group, item, records in database.fetch(f"SELECT sqlanon_group, product, records FROM {name}_sensitive"):
        found[group][1][item] += int(records)
    return found


def test_neighbours_of_the_pharmacy_share_a_group(database: Database) -> None:
    fill(database, PHARMACY)
    policy = asked(degree(2, ["viagra", "pregnancy test"]), release={"table": "r"})
    made = publish(policy, database.engine, workload=False)
    found = sorted((sorted(map(sorted, sets)), dict(items)) for sets, items in groups_of(database).values())
    assert found == [
        ([["cream", "meat"], ["cream", "meat", "wine"]], {"pregnancy test": 1}),
        ([["cream", "strawberries"]], {}),
        ([["meat", "wine"], ["meat", "wine"]], {"viagra": 1}),
    ]
    assert made.plan.algorithm == "permutation"
    assert Fraction(made.plan.loss).limit_denominator(1000) == Fraction(1, 13)  # half of each of 2 of 13
    again = check(policy, database.engine, release=Source(table="r"))
    assert again.holds and again.checks[0].measured == 0.5 and not again.breaches
    assert not check(policy, database.engine).holds  # in the source everybody is alone


@pytest.mark.full_on_postgres
@settings(max_examples=examples(30))
@given(persons=baskets, p=st.integers(2, 4))
def test_a_release_never_breaks_its_degree(database: Database, persons: Any, p: int) -> None:
    fill(database, persons)
    policy = asked(degree(p), release={"table": "r"}, absent_values="allow", suppression_limit=1.0)
    public = [each - set(PRIVATE) for each in persons]
    shown = [each for each in public if each]
    counts = Counter(item for each in persons if each - set(PRIVATE) for item in each & set(PRIVATE))
    if max(counts.values(), default=0) * p > len(shown):
        with pytest.raises(NotReleased, match="more than one in"):
            publish(policy, database.engine, workload=False)
        return
    if not shown:
        with pytest.raises(NotReleased):
            publish(policy, database.engine, workload=False)
        return
    made = publish(policy, database.engine, workload=False)
    found = groups_of(database)
    assert Counter(each for sets, _ in found.values() for each in sets) == Counter(shown)
    assert sum((items for _, items in found.values()), Counter()) == counts
    for sets, items in found.values():
        assert len(sets) >= p or not items
        assert all(records * p <= len(sets) for records in items.values())
    assert made.plan.suppressed == sum(len(each) for each in persons if not each - set(PRIVATE))
    # An attacker who finds the group of a person is as sure as the share of it that has an item.
    after = attack(policy, database.engine, release=Source(table="r"), names=["private_items"]).attacks[0].after
    shares = [Fraction(n, len(sets)) for sets, items in found.values() for n in items.values() for _ in range(n)]
    assert after is not None and after.targets == len(shares) and after.broken == 0
    assert after.average == pytest.approx(float(sum(shares) / len(shares)) if shares else None)


@settings(max_examples=examples(200))
@given(
    private=st.lists(st.sets(st.integers(1, 3), max_size=2), min_size=1, max_size=30),
    p=st.integers(2, 5),
)
def test_groups_leave_enough_for_the_rest(private: list[set[int]], p: int) -> None:
    """Each group has every item once at most, and the rest holds it one in p."""
    counts = Counter(item for own in private for item in own)
    if any(n * p > len(private) for n in counts.values()):
        return
    made = group_nearest(len(private), {place: own for place, own in enumerate(private) if own}, p)
    taken = [place for group in made for place in group]
    assert len(set(taken)) == len(taken)
    for group in made:
        assert len(group) == p and max(Counter(item for each in group for item in private[each]).values()) == 1
    left = Counter(item for place, own in enumerate(private) if place not in taken for item in own)
    assert all(n * p <= len(private) - len(taken) for n in left.values())


def test_a_release_may_be_two_files_and_is_published_again(duck: Database, tmp_path: Path) -> None:
    fill(duck, PHARMACY)
    path = tmp_path / "out.parquet"
    policy = asked(degree(2, ["viagra", "pregnancy test"]), release={"path": str(path)})
    for _ in range(2):  # the same groups under new numbers: the same release
        publish(policy, duck.engine, workload=False)
    assert check(policy, duck.engine, release=Source(path=str(path))).holds
    told = str(tmp_path / "out_sensitive.parquet")
    duckdb.sql(f"COPY (SELECT sqlanon_group, product, records + 0 AS records FROM '{told}' LIMIT 1) TO '{told}'")
    again = check(policy, duck.engine, release=Source(path=str(path)))
    assert any("not the file that was published" in each for each in again.breaches)


@pytest.mark.full_on_postgres
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE r SET sqlanon_group = NULL WHERE person_number = 1", "have no group"),
        ("UPDATE r SET sqlanon_group = 99 WHERE product = 'meat'", "in several groups"),
        ("INSERT INTO r VALUES (1, 1, 'viagra')", "in the same table as the public ones"),
        ("INSERT INTO r_sensitive VALUES (77, 'viagra', 1)", "of groups without persons"),
        ("UPDATE r_sensitive SET records = NULL", "do not say how many persons"),
        ("UPDATE r_sensitive SET records = -5", "do not say how many persons"),
    ],
)
def test_a_table_that_was_tampered_with_breaks(database: Database, change: str, said: str) -> None:
    fill(database, PHARMACY)
    policy = asked(degree(2, ["viagra", "pregnancy test"]), release={"table": "r"})
    publish(policy, database.engine, workload=False)
    database.run(change)
    again = check(policy, database.engine, release=Source(table="r"))
    assert not again.holds and any(said in each for each in again.breaches)


def test_what_is_refused(duck: Database) -> None:
    fill(duck, PHARMACY, ["flu"] * 5)
    private = ["viagra", "pregnancy test"]
    with pytest.raises(PolicyError, match="beside the public items"):
        publish(asked(degree(2, private), values=True, release={"table": "r"}), duck.engine, workload=False)
    fill(duck, PHARMACY)
    with pytest.raises(PolicyError, match="two at a time"):
        publish(asked(degree(2, private), release={"view": "v"}), duck.engine, workload=False)
    with pytest.raises(PolicyError, match="does not reach km_anonymity"):
        models = [*degree(2, private), {"km_anonymity": {"k": 2, "m": 1}}]
        publish(asked(models, algorithm="permutation", release={"table": "r"}), duck.engine, workload=False)
    with pytest.raises(PolicyError, match="is not in the data"):
        check(asked(degree(2, ["viagar"])), duck.engine)
    with pytest.raises(NotReleased, match="more than one in 3"):
        publish(asked(degree(3, ["cream"]), release={"table": "r"}), duck.engine, workload=False)
    with pytest.raises(SourceError, match="no column 'sqlanon_group'"):
        check(
            asked(degree(2, private), source={"table": "baskets"}),
            duck.engine,
            release=Source(query="SELECT who AS person_number, product FROM baskets"),
        )
