"""Releases over time: what an attacker learns who compares all of them, and what is held back so that it is little."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from conftest import Database

from sqlanon.errors import PolicyError
from sqlanon.policy import Policy, parse
from sqlanon.release import Published, publish
from sqlanon.release.record import of_version, versions
from sqlanon.release.stored_evidence import load_evidence

KEY = "a key that is long enough"
# The column `mark` tells who is in which class. Only the attacker of these tests looks at it, who is to know that.
POLICY = """
source: {table: people}
person: id
columns: {id: identifier, age: quasi_identifier, town: quasi_identifier, illness: sensitive, mark: insensitive}
hierarchies:
  age: {intervals: {widths: [20]}}
  town: {tree: {tree: {"*": [A, B]}}}
models: [{k_anonymity: {k: 3}}, {distinct_l_diversity: {l: 2}}]
suppression_limit: 0.5
release: {table: released}
"""
COLUMNS = {"id": "INTEGER", "age": "INTEGER", "town": "TEXT", "illness": "TEXT", "mark": "INTEGER"}
ILLNESSES = ("flu", "cold", "asthma", "gout")
Person = dict[str, Any]
Part = tuple[frozenset[int], Counter[str]]  # who is in a class, and what they have, not who has what


def policy(history: str = "history: {hold_back: 1}\n", text: str = POLICY) -> Policy:
    return parse(text + history)


def refresh(database: Database, asked: Policy, key: str = KEY) -> Published:
    return publish(asked, database.engine, secret=key, workload=False)


def seen(database: Database) -> list[Part]:
    """The classes of the release."""
    found: dict[tuple[Any, Any], tuple[set[int], Counter[str]]] = {}
    for age, town, illness, mark in database.fetch("SELECT age, town, illness, mark FROM released"):
        who, what = found.setdefault((age, town), (set(), Counter()))
        who.add(mark)
        what[illness] += 1
    return [(frozenset(who), what) for who, what in found.values()]


def deduced(past: list[list[Part]]) -> Iterator[Part]:
    """Every set of persons of whom the attacker knows what they have together: classes, what two classes of different
    releases leave of each other when one lies in the other, and whoever was in one class each time."""
    known = [part for parts in past for part in parts]
    yield from known
    for (one, ones), (other, others) in combinations(known, 2):
        if one < other:
            yield other - one, others - ones
        elif other < one:
            yield one - other, ones - others
    for here, there in combinations(past, 2):
        for (one, ones), (other, others) in ((a, b) for a in here for b in there):
            if one & other:
                yield one & other, ones & others


def broken(past: list[list[Part]], persons: int, values: int) -> int:
    return sum(len(who) < persons or len(what) < values for who, what in deduced(past))


def person(rng: random.Random, number: int) -> Person:
    row = {"age": rng.randint(20, 59), "town": rng.choice("AB"), "illness": rng.choice(ILLNESSES)}
    return {"id": number, "mark": number, **row}


def life(database: Database, asked: Policy, seed: int, refreshes: int) -> tuple[list[list[Part]], list[Published]]:
    """So many releases of a table in which people come, go and move."""
    rng = random.Random(seed)
    people = {number: person(rng, number) for number in range(500)}
    past, published = [], []
    for _ in range(refreshes):
        database.table("people", COLUMNS, list(people.values()))
        published.append(refresh(database, asked))
        past.append(seen(database))
        for number in rng.sample(sorted(people), rng.randint(0, 4)):
            del people[number]
        for number in rng.sample(sorted(people), rng.randint(0, 2)):
            people[number] = people[number] | {"town": rng.choice("AB")}
        first = max(people) + 1
        people |= {number: person(rng, number) for number in range(first, first + rng.randint(0, 8))}
    return past, published


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_a_life_of_releases_tells_no_more_than_one(duck: Database, seed: int) -> None:
    past, published = life(duck, policy(), seed, 12)
    assert broken(past, 3, 2) == 0
    assert [item.document["history"]["version"] for item in published] == list(range(1, 13))
    assert sum(item.document["history"]["held_back"] for item in published) > 0
    assert sum(len(who) for who, _ in past[-1]) > 250  # and it is not by showing nobody


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_the_same_attacker_breaks_releases_that_are_not_compared(duck: Database, seed: int) -> None:
    fixed = "algorithm: {fixed_levels: {levels: {age: 1, town: 0}}}\n"
    past, _ = life(duck, policy(fixed), seed, 3)
    assert all(broken([parts], 3, 2) == 0 for parts in past)  # each by itself is fine
    assert broken(past, 3, 2) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_long_lives(duck: Database, seed: int) -> None:
    past, _ = life(duck, policy(), 100 + seed, 50)
    assert broken(past, 3, 2) == 0


@pytest.mark.full
def test_a_life_on_postgres(postgres: Database) -> None:
    past, _ = life(postgres, policy(), 7, 4)
    assert broken(past, 3, 2) == 0


# ---- the survey's examples: Table VIII


TABLE_VIII = """
source: {table: people}
person: id
columns: {id: identifier, job: quasi_identifier, sex: quasi_identifier, disease: sensitive}
hierarchies:
  job: {tree: {tree: {"*": [Professional, Artist]}}}
  sex: {tree: {tree: {"*": [Female, Male]}}}
models: [{k_anonymity: {k: 2}}, {distinct_l_diversity: {l: 2}}]
release: {table: released}
algorithm: {fixed_levels: {levels: {job: 0, sex: 0}}}
"""
FIRST = [
    ("Cay", "Professional", "Female", "Cancer"),
    ("Dee", "Professional", "Female", "Diabetes"),
    ("Ed", "Artist", "Male", "Fever"),
    ("Flo", "Artist", "Male", "Cancer"),
]
INSERTED = [*FIRST, ("Alice", "Professional", "Female", "HIV")]  # example 6.3
REPLACED = [FIRST[0], ("Gil", "Professional", "Female", "Fever"), *FIRST[2:]]  # example 6.4: Beth is who stays


def patients(database: Database, rows: list[tuple[str, ...]]) -> None:
    names = ("id", "job", "sex", "disease")
    columns = dict.fromkeys(names, "TEXT")
    database.table("people", columns, [dict(zip(names, row, strict=True)) for row in rows])


@pytest.mark.full
@pytest.mark.parametrize("second", [INSERTED, REPLACED], ids=["6.3", "6.4"])
def test_the_survey_breaks_what_is_not_compared(database: Database, second: list[tuple[str, ...]]) -> None:
    """Both releases are 2-diverse; taken together they tell what Alice has, and what Beth has."""
    asked = policy("", TABLE_VIII)
    told = []
    for rows in (FIRST, second):
        patients(database, rows)
        refresh(database, asked)
        told.append(
            Counter(row[0] for row in database.fetch("SELECT disease FROM released WHERE job = 'Professional'"))
        )
    if second is INSERTED:
        assert told[1] - told[0] == Counter(["HIV"])
    else:
        assert told[0] & told[1] == Counter(["Cancer"])


@pytest.mark.full
@pytest.mark.parametrize("second", [INSERTED, REPLACED], ids=["6.3", "6.4"])
def test_the_survey_is_refused(database: Database, second: list[tuple[str, ...]]) -> None:
    asked = policy("history: {hold_back: 0}\n", TABLE_VIII)
    patients(database, FIRST)
    refresh(database, asked)
    before = sorted(database.fetch("SELECT * FROM released"))
    patients(database, second)
    with pytest.raises(PolicyError, match="would have to be held back"):
        refresh(database, asked)
    assert sorted(database.fetch("SELECT * FROM released")) == before
    patients(database, FIRST)
    assert refresh(database, asked).document["history"]["version"] == 2  # nothing of the refused one was kept


@pytest.mark.full
@pytest.mark.parametrize(("second", "left"), [(INSERTED, 4), (REPLACED, 2)], ids=["6.3", "6.4"])
def test_the_survey_is_repaired(database: Database, second: list[tuple[str, ...]], left: int) -> None:
    """Alice waits; and where Dee left, Beth leaves with her, so that nobody knows who of them had what."""
    asked = policy("history: {hold_back: 1}\n", TABLE_VIII)
    patients(database, FIRST)
    refresh(database, asked)
    patients(database, second)
    done = refresh(database, asked)
    assert done.document["history"]["held_back"] == len(second) - left
    assert database.fetch("SELECT COUNT(*) FROM released") == [(left,)]


@pytest.mark.full
def test_who_waited_is_shown_when_others_join(database: Database) -> None:
    asked = policy("history: {hold_back: 1}\n", TABLE_VIII)
    patients(database, FIRST)
    refresh(database, asked)
    patients(database, INSERTED)
    refresh(database, asked)
    patients(database, [*INSERTED, ("Hal", "Professional", "Female", "Flu")])
    assert refresh(database, asked).document["history"]["held_back"] == 0
    assert database.fetch("SELECT COUNT(*) FROM released") == [(6,)]


# ---- what is kept, and what goes wrong


def test_no_row_and_no_name_is_kept(database: Database) -> None:
    patients(database, FIRST)
    refresh(database, policy("history: {}\n", TABLE_VIII))
    listed = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'sqlanon_past_%'"
    kept = [name for (name,) in database.fetch(listed)]
    assert len(kept) == 10
    for name in kept:
        told = str(database.fetch(f"SELECT * FROM {name}"))
        assert not any(who in told for who, *_ in FIRST), name
        if name.endswith("_persons"):
            assert not any(disease in told for *_, disease in FIRST)


@pytest.mark.full
def test_another_key_or_person_column_is_refused(database: Database) -> None:
    asked = policy("history: {}\n", TABLE_VIII)
    patients(database, FIRST)
    with pytest.raises(PolicyError, match="at least 16 characters"):
        refresh(database, asked, "short")
    refresh(database, asked)
    with pytest.raises(PolicyError, match="not that of the earlier releases"):
        refresh(database, asked, "another key that is long enough")
    refresh(database, asked)


@pytest.mark.full_on_postgres
def test_a_history_cannot_be_left_out_or_begun_late(database: Database) -> None:
    with_history, without = policy("history: {}\n", TABLE_VIII), policy("", TABLE_VIII)
    patients(database, FIRST)
    refresh(database, with_history)
    with pytest.raises(PolicyError, match="was published with a history"):
        refresh(database, without)
    elsewhere = TABLE_VIII.replace("{table: released}", "{table: elsewhere}")
    refresh(database, policy("", elsewhere))
    for _ in range(2):
        with pytest.raises(PolicyError, match="was published without a history"):
            refresh(database, policy("history: {}\n", elsewhere))
        database.run("DROP TABLE IF EXISTS elsewhere")


@pytest.mark.full_on_postgres
def test_another_spelling_finds_the_same_history(database: Database) -> None:
    schema = "main" if database.engine.dialect == "duckdb" else "public"
    patients(database, FIRST)
    refresh(database, policy("history: {}\n", TABLE_VIII))
    database.run("DROP TABLE released")  # what was seen was seen
    patients(database, INSERTED)
    spelt = TABLE_VIII.replace("{table: released}", f"{{view: {schema}.released}}")
    with pytest.raises(PolicyError, match="would have to be held back"):
        refresh(database, policy("history: {hold_back: 0}\n", spelt))


@pytest.mark.full
def test_versions_are_recorded(database: Database) -> None:
    asked = policy("history: {}\n", TABLE_VIII)
    patients(database, FIRST)
    for _ in range(3):
        refresh(database, asked)
    found = versions(database.engine, "released")
    assert [(item.version, item.status) for item in found] == [(3, "current"), (2, "superseded"), (1, "superseded")]
    second = of_version(database.engine, "released", 2)
    assert second is not None and second["history"]["version"] == 2
    assert of_version(database.engine, "released", 4) is None


@pytest.mark.full_on_postgres
def test_a_record_of_before_versions_goes_on(database: Database) -> None:
    asked = policy("", TABLE_VIII)
    patients(database, FIRST)
    refresh(database, asked)
    for name in ("version", "status"):
        database.run(f"ALTER TABLE sqlanon_releases DROP COLUMN {name}")
    assert load_evidence(asked, database.engine)["release"]["name"] == "released"
    assert [(item.version, item.status) for item in versions(database.engine)] == [(1, "current")]
    with pytest.raises(PolicyError, match="was published without a history"):
        refresh(database, policy("history: {}\n", TABLE_VIII))
    refresh(database, asked)
    found = versions(database.engine, "released")
    assert [(item.version, item.status) for item in found] == [(2, "current"), (1, "superseded")]


@pytest.mark.full
def test_keys_of_another_type_are_not_taken_for_newcomers(duck: Database) -> None:
    rng = random.Random(5)
    people = [person(rng, number) for number in range(60)]
    duck.table("people", COLUMNS, people)
    refresh(duck, policy())
    duck.table("people", COLUMNS | {"id": "DOUBLE"}, people[1:])
    with pytest.raises(PolicyError, match="or its type is not that"):
        refresh(duck, policy())
    duck.table("people", COLUMNS, [who | {"id": who["id"] + 1000} for who in people])
    with pytest.raises(PolicyError, match="no person of the earlier releases"):
        refresh(duck, policy())


def test_a_history_that_was_lost_is_not_begun_anew(database: Database) -> None:
    asked = policy("history: {}\n", TABLE_VIII)
    patients(database, FIRST)
    refresh(database, asked)
    listed = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'sqlanon_past_%'"
    kept = [name for (name,) in database.fetch(listed)]
    database.run("CREATE TABLE away AS SELECT * FROM sqlanon_releases")
    database.run("DELETE FROM sqlanon_releases")
    database.run("DROP TABLE released")
    with pytest.raises(PolicyError, match="is at version 1, but its record is at version 0"):
        refresh(database, asked)
    with pytest.raises(PolicyError, match="was published with a history"):
        refresh(database, policy("", TABLE_VIII))
    database.run("INSERT INTO sqlanon_releases SELECT * FROM away")
    for name in kept:
        database.run(f"DROP TABLE {name}")
    with pytest.raises(PolicyError, match="is at version 0, but its record is at version 1"):
        refresh(database, asked)


@pytest.mark.full
def test_three_of_a_kind_wait_whatever_the_model(duck: Database) -> None:
    """t-closeness says nothing of parts of a class: newcomers who all have the same would be known to have it."""
    text = POLICY.replace("{distinct_l_diversity: {l: 2}}", "{t_closeness: {t: 0.9}}")
    rng = random.Random(5)
    people = [person(rng, number) for number in range(60)]
    duck.table("people", COLUMNS, people)
    refresh(duck, policy(text=text))
    same = {"age": 30, "town": "A", "illness": "hiv"}
    duck.table("people", COLUMNS, people + [same | {"id": number, "mark": number} for number in (91, 92, 93)])
    assert refresh(duck, policy(text=text)).document["history"]["held_back"] == 3


def test_values_that_changed_do_not_hide_who_left(duck: Database) -> None:
    """Three leave who have the same. That others have another value now makes it look as if their old ones had left."""
    people = [{"id": n, "mark": n, "age": 30, "town": "A", "illness": "flu" if n < 4 else "gout"} for n in range(12)]
    duck.table("people", COLUMNS, people)
    refresh(duck, policy())
    stayed = [who | ({"illness": "cold"} if who["id"] > 9 else {}) for who in people if who["id"] not in (0, 1, 2)]
    duck.table("people", COLUMNS, stayed)
    with pytest.raises(PolicyError, match="held back"):
        refresh(duck, policy("history: {hold_back: 0}\n"))


def test_evidence_tells_nothing_of_rows_that_wait(duck: Database) -> None:
    rng = random.Random(5)
    duck.table("people", COLUMNS, [person(rng, number) for number in range(60)])
    document = refresh(duck, policy()).document
    assert "before" not in document["class_sizes"] and "before" not in document["risk"]
    assert all("before" not in item for item in document["distributions"].values())


def test_one_row_a_person(database: Database) -> None:
    patients(database, [*FIRST, FIRST[0]])
    with pytest.raises(PolicyError, match="one row a person, but 5 rows are of 4 persons"):
        refresh(database, policy("history: {}\n", TABLE_VIII))


@pytest.mark.full
def test_the_levels_stay(duck: Database) -> None:
    """A search would find other levels for other data; classes that are cut anew would tell more."""
    rng = random.Random(3)
    few = [person(rng, number) for number in range(30)]
    duck.table("people", COLUMNS, few)
    first = refresh(duck, policy())
    duck.table("people", COLUMNS, few + [person(rng, number) for number in range(30, 400)])
    second = refresh(duck, policy())
    assert second.plan.passes == first.plan.passes
    assert second.plan.algorithm == "fixed_levels"
    other = POLICY.replace("{table: released}", "{table: other}")
    assert refresh(duck, policy(text=other)).plan.passes != first.plan.passes  # as a search by itself would


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ("history: {hold_back: 2}\n", "must be a number between 0 and 1"),
        ("history: {models: [{stable_particion: {k: 3}}]}\n", "did you mean 'stable_partition'"),
        ("history: {models: [{stable_partition: {m: 3}}]}\n", "has no parameter 'm'"),
        ("history: {models: [{stable_partition: {k: 3, attribute: age}}]}\n", "is no sensitive column"),
        ("history: {models: [stable_partition]}\n", "one name with its parameters"),
        ("history: {}\nsuppressed_rows: keep\n", "from a person who left"),
    ],
)
def test_wrong_sections(history: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        policy(history)
    assert said in str(error.value)


def test_it_needs_a_person_and_a_database() -> None:
    with pytest.raises(PolicyError) as error:
        parse(POLICY.replace("person: id\n", "").replace("{table: released}", "{path: r.csv}") + "history: {}\n")
    assert "history needs a person column" in str(error.value)
    assert "history needs a release in the database" in str(error.value)
