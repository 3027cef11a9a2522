"""Rows that wait, and levels that are raised, until the models across releases hold: whole lives of releases, with an
attacker who compares them, and the same releases without a comparison, which the attacker breaks."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from typing import Any

import history_oracles
import pytest
from conftest import Database
from histories import Release
from test_history import COLUMNS, POLICY, Person, person, policy, refresh

from sqlanon.errors import PolicyError
from sqlanon.release import Published

FIXED = "algorithm: {fixed_levels: {levels: {age: 1, town: 0}}}\n"
Past = list[tuple[Release, Published]]


def seen(database: Database, people: dict[int, Person], done: Published) -> Release:
    """A release by hand: who is in which class, with the paths of its labels from the roots."""
    rows = database.fetch("SELECT mark, age, town, illness FROM released")
    numbers = {labels: place for place, labels in enumerate(sorted({(str(a), str(t)) for _, a, t, _ in rows}), start=1)}
    levels = done.plan.passes[0]
    paths = {}
    for mark, age, town, _ in rows:
        who = people[mark]
        whole = (["*", str(who["age"] // 20), str(who["age"])], ["*", who["town"]])
        kept = [whole[0][: 3 - levels["age"]], whole[1][: 2 - levels["town"]]]
        paths[numbers[str(age), str(town)]] = tuple("/" + "/".join(path) + "/" for path in kept)
    persons = {str(mark): (numbers[str(age), str(town)], illness) for mark, age, town, illness in rows}
    return Release(persons, labels=paths)


def life(database: Database, history: str, seed: int, refreshes: int, *, leave: int = 4, text: str = POLICY) -> Past:
    """People come, leave, come back and move; with `leave` 0 they only come."""
    rng = random.Random(seed)
    people = {number: person(rng, number) for number in range(200)}
    everybody = dict(people)
    past: Past = []
    for _ in range(refreshes):
        database.table("people", COLUMNS, list(people.values()))
        done = refresh(database, policy(history, text))
        past.append((seen(database, people, done), done))
        gone = rng.sample(sorted(people), rng.randint(0, leave))
        people = {number: row for number, row in people.items() if number not in gone}
        back = [number for number in everybody if number not in people and number not in gone]
        if leave and back:
            number = rng.choice(back)
            people[number] = everybody[number]
            moved = rng.choice(sorted(people))
            people[moved] = everybody[moved] = people[moved] | {"town": rng.choice("AB")}
        first = max(everybody) + 1
        added = {number: person(rng, number) for number in range(first, first + rng.randint(0, 8))}
        people, everybody = people | added, everybody | added
    return past


def least_over_all(past: Past, model: str, limit: int) -> int:
    """The least that a model's definition measures, at any release beside all before it."""
    releases = [release for release, _ in past]
    found = []
    for end in range(1, len(releases) + 1):
        found += [row[3] for row in getattr(history_oracles, model)(releases[:end], limit)]
    return min(found)


def told_of_somebody(past: Past) -> int:
    """For how many persons some pair of releases leaves a single value: of those of a class who came, stayed or left
    together, all have it. Who knows everybody's class and when it came learns it."""
    told: set[str] = set()
    for (one, _), (other, _) in combinations(past, 2):
        sets: dict[Any, list[str]] = {}
        for who in {*one.persons, *other.persons}:
            sets.setdefault((one.class_of(who), other.class_of(who)), []).append(who)
        for who in sets.values():
            values = Counter((other if other.class_of(each) else one).persons[each][1] for each in who)
            told |= set(who) if len(values) == 1 else set()
    return len(told)


MODELS = {"incremental_l_diversity": "l", "composition": "l", "bcf_anonymity": "k"}


@pytest.mark.full
@pytest.mark.parametrize("model", MODELS)
def test_lives_keep_their_promise(duck: Database, model: str) -> None:
    history = f"history: {{hold_back: 1, models: [{{{model}: {{{MODELS[model]}: 2}}}}]}}\n"
    # The definition of BCF-anonymity has everybody stay.
    past = life(duck, history, 1, 7, leave=0 if model == "bcf_anonymity" else 4)
    assert least_over_all(past, model, 2) >= 2
    last = past[-1][1].document["history"]["models"][0]
    releases = [release for release, _ in past]
    rows = getattr(history_oracles, model)(releases, 2)
    assert (last["compared"], last["broken"]) == (rows.total(), 0)
    assert last["measured"] == min(row[3] for row in rows)
    if model == "incremental_l_diversity":
        assert told_of_somebody(past) == 0
    assert len(past[-1][0].persons) > 100  # and it is not by showing nobody


@pytest.mark.full
def test_the_same_lives_without_a_comparison_tell(duck: Database) -> None:
    past = life(duck, FIXED, 1, 7)
    assert told_of_somebody(past) > 0
    assert least_over_all(past, "incremental_l_diversity", 2) < 2
    assert least_over_all(past, "composition", 2) >= 1
    assert least_over_all(life(duck, FIXED, 1, 7, leave=0), "bcf_anonymity", 2) < 2


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", MODELS)
def test_long_lives_keep_their_promise(duck: Database, model: str, seed: int) -> None:
    history = f"history: {{hold_back: 1, models: [{{{model}: {{{MODELS[model]}: 2}}}}]}}\n"
    past = life(duck, history, 100 + seed, 50, leave=0 if model == "bcf_anonymity" else 4)
    assert least_over_all(past, model, 2) >= 2
    if model == "incremental_l_diversity":
        assert told_of_somebody(past) == 0


@pytest.mark.full
def test_newcomers_wait_until_they_differ(database: Database) -> None:
    """Example 6.3: Alice waits; with somebody who has something else she is shown."""
    rows = [("c", "f", "Cancer"), ("d", "f", "Diabetes"), ("e", "m", "Fever"), ("g", "m", "Cancer")]
    text = """
source: {table: people}
person: id
columns: {id: identifier, sex: quasi_identifier, disease: sensitive}
hierarchies: {sex: {tree: {tree: {"*": [f, m]}}}}
models: [{distinct_l_diversity: {l: 2}}]
release: {table: released}
history: {hold_back: 0.5, models: [{incremental_l_diversity: {l: 2}}]}
"""
    held = []
    for added in ([], [("alice", "f", "HIV")], [("alice", "f", "HIV"), ("h", "f", "Flu")]):
        table = [dict(zip(("id", "sex", "disease"), row, strict=True)) for row in [*rows, *added]]
        database.table("people", dict.fromkeys(("id", "sex", "disease"), "TEXT"), table)
        held.append(refresh(database, policy("", text)).document["history"]["held_back"])
    assert held == [0, 1, 0]


@pytest.mark.full
def test_levels_are_raised_for_bcf(duck: Database) -> None:
    """Newcomers who would stand out in their own town are hidden among those of both."""
    base = [
        {"id": n, "mark": n, "age": 30, "town": "AB"[n % 2], "illness": ("flu", "cold")[n // 2 % 2]} for n in range(12)
    ]
    history = "history: {hold_back: 0, models: [{bcf_anonymity: {k: 3}}]}\n"
    duck.table("people", COLUMNS, base)
    first = refresh(duck, policy(history))
    assert first.plan.passes[0]["town"] == 0
    added = [
        {"id": n, "mark": n, "age": 30, "town": "AAB"[n % 3], "illness": ("flu", "cold")[n % 2]}
        for n in (20, 21, 22, 23)
    ]
    duck.table("people", COLUMNS, base + added)
    done = refresh(duck, policy(history))
    assert done.plan.passes[0]["town"] == 1 and "raised" in done.plan.why
    assert done.document["history"]["held_back"] == 0
    fixed = policy(
        history + "algorithm: {fixed_levels: {levels: {age: 0, town: 0}}}\n", POLICY.replace("released", "other")
    )
    duck.table("people", COLUMNS, base)
    refresh(duck, fixed)
    duck.table("people", COLUMNS, base + added)
    with pytest.raises(PolicyError, match="bcf_anonymity"):
        refresh(duck, fixed)


@pytest.mark.full
def test_bcf_needs_levels_and_the_same_hierarchies(duck: Database) -> None:
    rng = random.Random(2)
    history = "history: {hold_back: 1, models: [{bcf_anonymity: {k: 2}}]}\n"
    duck.table("people", COLUMNS, [person(rng, number) for number in range(60)])
    with pytest.raises(PolicyError, match="cannot be compared along their hierarchies"):
        refresh(duck, policy(history + "algorithm: mondrian\n"))
    refresh(duck, policy(history + FIXED))
    other = POLICY.replace("widths: [20]", "widths: [15]")
    with pytest.raises(PolicyError, match="hierarchies of age are not those of the earlier releases"):
        refresh(duck, policy(history + FIXED, other))
