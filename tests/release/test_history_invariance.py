"""m-invariance by buckets: nobody's set of possible values shrinks, whoever comes, leaves or changes; and what is shown
is checked by a program that knows everybody's class in every release."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from typing import Any
from uuid import UUID

import pytest
from conftest import Database
from hypothesis import given
from hypothesis import strategies as st

from sqlanon.algorithms.m_invariance import format_signature, parse_signature
from sqlanon.errors import PolicyError
from sqlanon.policy import parse
from sqlanon.relations.bucket_quotas import fill_buckets
from sqlanon.release import Published, publish

KEY = "a key that is long enough"
POLICY = """
source: {table: people}
person: id
columns: {id: identifier, age: quasi_identifier, town: quasi_identifier, illness: sensitive}
hierarchies:
  age: {intervals: {widths: [20]}}
  town: {tree: {tree: {"*": [A, B, C]}}}
models: [{distinct_l_diversity: {l: 3}}]
algorithm: m_invariance
release: {table: released}
history: {hold_back: 0.3, models: [{m_invariance: {m: 3}}]}
"""
COLUMNS = {"id": "INTEGER", "age": "INTEGER", "town": "TEXT", "illness": "TEXT"}
ILLNESSES = ("flu", "cold", "asthma", "gout", "hiv")
Person = dict[str, Any]


def person(rng: random.Random, number: int) -> Person:
    illness = rng.choices(ILLNESSES, (4, 3, 2, 2, 1))[0]
    return {"id": number, "age": rng.randint(20, 59), "town": rng.choice("ABC"), "illness": illness}


def refresh(database: Database, people: dict[int, Person], text: str = POLICY) -> Published:
    database.table("people", COLUMNS, list(people.values()))
    return publish(parse(text), database.engine, secret=KEY, workload=False)


def shown(database: Database) -> dict[int, tuple[list[tuple[str, str]], Counter[str]]]:
    """The classes: labels and values, of persons and of nobody alike."""
    found: dict[int, tuple[list[tuple[str, str]], Counter[str]]] = defaultdict(lambda: ([], Counter()))
    for number, age, town, illness in database.fetch("SELECT sqlanon_class, age, town, illness FROM released"):
        found[number][0].append((age, town))
        found[number][1][illness] += 1
    return dict(found)


def present(database: Database, people: dict[int, Person]) -> set[int]:
    """Who is in the release that is shown; who waits, or has another value than before, is not."""
    listed = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'sqlanon_past_%_persons'"
    kept = database.fetch(listed)[0][0].removesuffix("_persons")
    rows = database.fetch(
        f"SELECT s.person FROM {kept}_persons AS s JOIN {kept}_past AS p ON p.group_id = s.group_id"
        f" WHERE p.version = (SELECT MAX(version) FROM {kept}_past)"
    )
    hashes = {UUID(str(found)) for (found,) in rows}
    return {who for who in people if _hashed(who) in hashes}


def _hashed(who: int) -> UUID:
    inner = hashlib.sha256(f"{KEY}:id:{who}".encode()).hexdigest()
    return UUID(hashlib.sha256(f"{KEY}{inner}".encode()).hexdigest()[:32])


def covers(label: str | None, value: Any) -> bool:
    if label is None:
        return value is None
    if label.startswith("["):
        low, high = label[1:-1].split(", ")
        return int(low) <= value <= int(high)
    if label.startswith("{"):
        return str(value) in label[1:-1].split(", ")
    return label in (str(value), "*")


def life(
    database: Database, seed: int, refreshes: int, text: str = POLICY
) -> list[tuple[dict[int, Person], Any, Published]]:
    """People come, leave, come back, move and fall ill of something else."""
    rng = random.Random(seed)
    people = {number: person(rng, number) for number in range(120)}
    away: dict[int, Person] = {}
    past = []
    for _ in range(refreshes):
        done = refresh(database, people, text)
        inside = present(database, people)
        past.append(({who: row for who, row in people.items() if who in inside}, shown(database), done))
        for number in rng.sample(sorted(people), rng.randint(0, 6)):
            away[number] = people.pop(number)
        for number in rng.sample(sorted(away), min(len(away), rng.randint(0, 2))):
            people[number] = away.pop(number)
        for number in rng.sample(sorted(people), 2):
            people[number] = people[number] | {"town": rng.choice("ABC")}
        if rng.random() < 0.3:
            changed = rng.choice(sorted(people))
            people[changed] = people[changed] | {"illness": rng.choice(ILLNESSES)}
        first = max((*people, *away)) + 1
        people |= {number: person(rng, number) for number in range(first, first + rng.randint(0, 8))}
    return past


def narrowed(past: list[tuple[dict[int, Person], Any, Published]]) -> dict[int, set[str]]:
    """The attacker knows who is in each release, and everybody's age and town at each time, so that only classes whose
    labels cover them can hold a person. What remains possible for each: the values that some such class has in every
    release that the person was in."""
    left: dict[int, set[str]] = {}
    for people, classes, _ in past:
        for who, row in people.items():
            fitting = [
                values
                for labels, values in classes.values()
                if all(covers(age, row["age"]) and covers(town, row["town"]) for age, town in labels[:1])
            ]
            possible = set().union(*fitting)
            left[who] = left.get(who, possible) & possible
    return left


def check_classes(past: list[tuple[dict[int, Person], Any, Published]], m: int) -> None:
    for people, classes, done in past:
        history = done.document["history"]
        rows = sum(values.total() for _, values in classes.values())
        assert all(len(values) == values.total() >= m for _, values in classes.values())
        assert all(len(set(labels)) == 1 for labels, _ in classes.values())
        assert rows == len(people) + history["counterfeits"]
        assert history["models"][0]["holds"]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_lives_keep_every_persons_values(duck: Database, seed: int) -> None:
    past = life(duck, seed, 8)
    check_classes(past, 3)
    assert min(len(values) for values in narrowed(past).values()) >= 3
    assert sum(done.document["history"]["counterfeits"] for *_, done in past) > 0
    assert past[-1][2].document["released"] > 60


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_long_lives_keep_every_persons_values(duck: Database, seed: int) -> None:
    past = life(duck, 100 + seed, 50, POLICY.replace("hold_back: 0.3", "hold_back: 1"))
    check_classes(past, 3)
    assert min(len(values) for values in narrowed(past).values()) >= 3


@pytest.mark.full
def test_a_life_on_postgres(postgres: Database) -> None:
    check_classes(life(postgres, 3, 3), 3)


def test_the_survey_is_repaired_by_counterfeits(duck: Database) -> None:
    """Table VIII, example 6.4: Diabetes left. A row of nobody takes its place, and Beth may have either."""
    text = POLICY.replace("l: 3", "l: 2").replace("m: 3", "m: 2").replace("0.3", "0.5")
    women = {1: ("Cancer", 30), 2: ("Diabetes", 31), 3: ("Fever", 50), 4: ("Cancer", 51)}
    people = {who: {"id": who, "age": age, "town": "A", "illness": ill} for who, (ill, age) in women.items()}
    first = refresh(duck, people, text).document["history"]
    del people[2]
    people[5] = {"id": 5, "age": 32, "town": "A", "illness": "Fever"}
    done = refresh(duck, people, text)
    history = done.document["history"]
    assert first["counterfeits"] == 0 and history["counterfeits"] == 1
    assert done.document["suppressed"] == 1  # the newcomer waits for somebody with another value
    assert done.document["history"]["held_back"] == 1  # and the command says so
    illnesses = [values for labels, values in shown(duck).values() if covers(labels[0][0], 30)]
    assert all(set(values) == {"Cancer", "Diabetes"} for values in illnesses)


def test_who_has_another_value_is_shown_no_more(duck: Database) -> None:
    rng = random.Random(1)
    people = {number: person(rng, number) for number in range(60)}
    refresh(duck, people)
    signatures = [set(values) for _, values in shown(duck).values()]
    lacking = next(illness for illness in ILLNESSES if any(illness not in values for values in signatures))
    for who, row in people.items():
        people[who] = row | {"illness": lacking}
    done = refresh(duck, people, POLICY.replace("hold_back: 0.3", "hold_back: 1"))
    assert done.document["suppressed"] > 0
    now = [set(values) for _, values in shown(duck).values()]
    assert all(values in signatures and lacking in values for values in now)
    with pytest.raises(PolicyError, match="would have to wait"):
        refresh(duck, {number: person(rng, number) | {"illness": "flu"} for number in range(60, 200)} | people)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("history: {hold_back: 0.3, models: [{m_invariance: {m: 3}}]}", "history: {}"), "needs a history that asks"),
        (("town: quasi_identifier", "town: insensitive"), "have no 'town' to show"),
        (("id: identifier", "id: {role: identifier, pseudonym: true}"), "have no 'id' to show"),
    ],
)
def test_what_it_cannot_do(duck: Database, change: tuple[str, str], said: str) -> None:
    rng = random.Random(1)
    text = POLICY.replace(*change)
    if "town: insensitive" in text:
        text = text.replace('  town: {tree: {tree: {"*": [A, B, C]}}}\n', "")
    with pytest.raises(PolicyError) as error:
        refresh(duck, {number: person(rng, number) for number in range(60)}, text)
    assert said in str(error.value)


# ---- counting


values_ = st.sampled_from("abcde")


@given(
    known=st.dictionaries(
        st.frozensets(values_, min_size=2, max_size=4), st.dictionaries(values_, st.integers(1, 9)), max_size=4
    ),
    newcomers=st.dictionaries(values_, st.integers(0, 30)),
    m=st.integers(2, 3),
)
def test_buckets_are_balanced(known: dict[Any, dict[str, int]], newcomers: dict[str, int], m: int) -> None:
    own = {sig: {v: n for v, n in counts.items() if v in sig} for sig, counts in known.items()}
    own = {sig: counts for sig, counts in own.items() if counts and len(sig) >= m}
    buckets = fill_buckets(own, newcomers, m)
    used: Counter[str] = Counter()
    for bucket in buckets:
        assert len(bucket.signature) >= m and bucket.classes > 0
        made_up = bucket.counterfeits()
        used.update(bucket.new)
        for value in bucket.signature:
            assert bucket.known[value] + bucket.new[value] + made_up[value] == bucket.classes
            assert made_up[value] >= 0
        # A class is never of nobody alone.
        assert max(bucket.known[value] + bucket.new[value] for value in bucket.signature) == bucket.classes
        if bucket.signature not in own:
            assert not made_up
    assert {bucket.signature: dict(bucket.known) for bucket in buckets if bucket.known} == own
    left = {value: n - used[value] for value, n in newcomers.items()}
    assert all(n >= 0 for n in left.values())
    # Without anybody known, only as many wait as no partition could show: one value is too frequent.
    total, most = sum(newcomers.values()), max(newcomers.values(), default=0)
    if not own and most * m <= total:
        assert sum(left.values()) == 0


@given(st.frozensets(st.text(max_size=5), max_size=4))
def test_signatures_are_read_as_they_were_written(signature: frozenset[str]) -> None:
    assert parse_signature(format_signature(signature)) == signature
