"""Mondrian with a history: regions of earlier releases are cut further, never anew."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from conftest import Database
from test_history import COLUMNS, POLICY, broken, deduced, person, policy, refresh, seen

from sqlanon.errors import PolicyError
from sqlanon.release.history.history_tables import prefix_of

REGIONS = "algorithm: mondrian\nhistory: {hold_back: 1}\n"


def cells(database: Database) -> list[tuple[Any, ...]]:
    name = f"{prefix_of(database.engine, 'released')}_cuts"
    return database.fetch(f"SELECT round, region, attribute, cut, right_region FROM {name} ORDER BY 1, 2")


def placed(cuts: list[tuple[Any, ...]], row: dict[str, Any]) -> int:
    """The region of a row by hand, cut after cut."""
    region = 1
    for _, own, attribute, cut, right in cuts:
        if own == region:
            behind = row["age"] > int(cut) if attribute == "age" else row["town"] > cut
            region = right if behind else region
    return region


def life(database: Database, history: str, seed: int, refreshes: int) -> tuple[list[Any], list[int], list[Any]]:
    rng = random.Random(seed)
    people = {number: person(rng, number) for number in range(300)}
    past, shown, cuts = [], [], []
    for _ in range(refreshes):
        database.table("people", COLUMNS, list(people.values()))
        refresh(database, policy(history))
        past.append(seen(database))
        shown.append(sum(len(who) for who, _ in past[-1]))
        if "history" in history:
            cuts.append(cells(database))
            regions: dict[int, set[int]] = {}
            for number, row in people.items():
                regions.setdefault(placed(cuts[-1], row), set()).add(number)
            # Everybody of a class is in one region, and no region shows two classes.
            for who, _ in past[-1]:
                assert sum(bool(who & others) for others in regions.values()) == 1
        for number in rng.sample(sorted(people), rng.randint(0, 3)):
            del people[number]
        for number in rng.sample(sorted(people), rng.randint(0, 2)):
            people[number] = people[number] | {"age": rng.randint(20, 59)}
        first = max(people) + 1
        people |= {number: person(rng, number) for number in range(first, first + rng.randint(0, 60))}
    return past, shown, cuts


@pytest.mark.full
def test_a_life_of_regions_tells_no_more_than_one(duck: Database) -> None:
    past, shown, cuts = life(duck, REGIONS, 1, 8)
    assert broken(past, 3, 2) == 0
    assert shown[-1] > 200
    for before, after in pairwise(cuts):
        assert set(before) <= set(after)


@pytest.mark.full
def test_regions_are_cut_further_where_nobody_is_told_apart(duck: Database) -> None:
    """The old ones are all below the cut, the newcomers all above; between the old ones there is none."""
    old = [
        {"id": n, "mark": n, "age": 30 + n % 2, "town": "A", "illness": ("flu", "cold")[n // 2 % 2]} for n in range(5)
    ]
    duck.table("people", COLUMNS, old)
    refresh(duck, policy(REGIONS))
    assert cells(duck) == []
    new = [row | {"id": 50 + row["id"], "mark": 50 + row["id"], "age": 50} for row in old]
    duck.table("people", COLUMNS, old + new)
    assert refresh(duck, policy(REGIONS)).document["history"]["held_back"] == 0
    assert cells(duck) == [(1, 1, "age", "31", 2)]
    assert sorted(len(who) for who, _ in seen(duck)) == [5, 5]
    assert duck.fetch("SELECT DISTINCT age FROM released ORDER BY 1") == [("50",), ("[30, 31]",)]
    # Another cut would be better balanced now, but the one that was made stays.
    more = [row | {"id": 90 + n, "mark": 90 + n, "age": 40} for n, row in enumerate([*new, *new])]
    duck.table("people", COLUMNS, old + more)
    refresh(duck, policy(REGIONS))
    assert cells(duck) == [(1, 1, "age", "31", 2)]


@pytest.mark.full
def test_the_same_attacker_breaks_regions_that_are_cut_anew(duck: Database) -> None:
    past, _, _ = life(duck, "algorithm: mondrian\n", 1, 3)
    assert all(broken([parts], 3, 2) == 0 for parts in past)
    assert broken(past, 3, 2) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_long_lives_of_regions(duck: Database, seed: int) -> None:
    past, _, _ = life(duck, REGIONS, 100 + seed, 50)
    assert broken(past, 3, 2) == 0


@pytest.mark.full
def test_a_life_of_regions_on_postgres(postgres: Database) -> None:
    past, _, _ = life(postgres, REGIONS, 3, 3)
    assert broken(past, 3, 2) == 0
    assert list(deduced(past))


def test_rows_at_a_cut_cannot_go_either_way(duck: Database) -> None:
    rng = random.Random(3)
    duck.table("people", COLUMNS, [person(rng, number) for number in range(60)])
    with pytest.raises(PolicyError, match="strict: false"):
        refresh(duck, policy(REGIONS.replace("mondrian", "{mondrian: {strict: false}}"), POLICY))
