"""What is kept of persons, encrypted: the same releases, and nothing to be learnt without the key."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from conftest import Database

from sqlanon.errors import PolicyError
from sqlanon.policy import parse
from sqlanon.release import publish
from sqlanon.release.history.history_tables import COLUMNS, HistoryTables
from sqlanon.release.history.sealed_tables import SEALED
from sqlanon.sqltree.tree import select, table

KEY = "a key that is long enough"
POLICY = """
source: {table: people}
person: id
columns: {id: identifier, town: quasi_identifier, illness: sensitive, job: sensitive}
hierarchies:
  town: {tree: {tree: {"*": [A, B]}}}
models: [{k_anonymity: {k: 2}}]
release: {table: released}
history: {hold_back: 1, encrypt: true}
"""
PLAIN = POLICY.replace(", encrypt: true", "").replace("{table: released}", "{table: beside}")
TYPES = {"id": "INTEGER", "town": "TEXT", "illness": "TEXT", "job": "TEXT"}


def life(database: Database, *texts: str, seed: int, turns: int) -> None:
    """The same people, who come and go, released by several policies."""
    rng = random.Random(seed)
    people = [person(rng, number) for number in range(60)]
    for turn in range(turns):
        people = people[rng.randint(2, 9) :] + [person(rng, 100 * (turn + 1) + number) for number in range(8)]
        database.table("people", TYPES, people)
        for text in texts:
            publish(parse(text), database.engine, secret=KEY, workload=False)


def person(rng: random.Random, number: int) -> dict[str, Any]:
    return {"id": number, "town": rng.choice("AB"), "illness": rng.choice(["flu", "cold:x"]), "job": rng.choice("xyz")}


class Undone(Exception):
    """Ends a transaction that only looks."""


@contextmanager
def looking(database: Database) -> Iterator[HistoryTables]:
    with suppress(Undone), database.engine.transaction():
        yield HistoryTables(database.engine, "released")
        raise Undone


def sealed(database: Database, short: str) -> str:
    with looking(database) as kept:
        return f"{kept.table(short)}_sealed"


def rows(database: Database, where: str, short: str) -> list[tuple[Any, ...]]:
    return sorted(database.fetch(f"SELECT {', '.join(COLUMNS[short])} FROM {where}"), key=str)


def read(database: Database, short: str) -> list[tuple[Any, ...]]:
    """What is kept, as a refresh with the key reads it."""
    kind = next(item.type for item in database.engine.columns(select("id", source=table("people"))))
    with looking(database) as kept:
        kept.require_key(KEY, parse(POLICY), kind)
        return rows(database, kept.table(short), short)


def plain(database: Database, short: str) -> list[tuple[Any, ...]]:
    with suppress(Undone), database.engine.transaction():
        return rows(database, HistoryTables(database.engine, "beside").table(short), short)
    raise AssertionError


@pytest.mark.full
def test_the_same_is_kept_and_nothing_is_learnt_without_the_key(database: Database) -> None:
    life(database, POLICY, PLAIN, seed=1, turns=2)
    names = "town, illness, job"
    shown = [Counter(database.fetch(f"SELECT {names} FROM {name}")) for name in ("released", "beside")]
    assert shown[0] == shown[1]
    for short in COLUMNS:
        if short != "versions":
            assert read(database, short) == plain(database, short), short
    existing = {name for (name,) in database.fetch("SELECT table_name FROM information_schema.tables")}
    assert not any(name.startswith("sqlanon_history") for name in existing)
    for short in SEALED:
        where = sealed(database, short)
        assert where in existing and where.removesuffix("_sealed") not in existing, "the plain table is still there"
        for name in COLUMNS[short]:
            if name in ("person", "attribute"):
                continue
            found = [row[0] for row in database.fetch(f"SELECT {name} FROM {where}")]
            assert len(set(found)) == len(found) > 5, (short, name)  # no number comes twice
            # Of 60 bits each is set in about half of the rows.
            often = [sum(value >> bit & 1 for value in found) / len(found) for bit in range(60)]
            assert sum(often) / 60 == pytest.approx(0.5, abs=0.08), (short, name)
    # Rows lie in the order of their marks, not of groups.
    marks = [str(mark) for (mark,) in database.fetch(f"SELECT mark FROM {sealed(database, 'persons')}")]
    assert marks == sorted(marks)
    database.run(f"UPDATE {sealed(database, 'candidates')} SET value = value + 1")
    with pytest.raises(PolicyError, match="cannot be decrypted as a whole"):
        publish(parse(POLICY), database.engine, secret=KEY, workload=False)


@pytest.mark.full
def test_it_begins_with_a_history_that_was_plain_and_two_versions_share_no_stream(database: Database) -> None:
    life(database, POLICY.replace(", encrypt: true", ""), seed=3, turns=1)
    kept = []
    for _ in range(2):
        publish(parse(POLICY), database.engine, secret=KEY, workload=False)
        kept.append(dict(database.fetch(f"SELECT person, group_id FROM {sealed(database, 'persons')}")))
    before, after = kept
    assert before.keys() == after.keys()
    # Who was in one group before is in one group now: were the streams the same, the same differences would show.
    differences = Counter(before[person] ^ after[person] for person in before)
    assert max(differences.values()) == 1
    with pytest.raises(PolicyError, match="does not ask for it any more"):
        publish(parse(POLICY.replace(", encrypt: true", "")), database.engine, secret=KEY, workload=False)
    with pytest.raises(PolicyError, match="is not that of the earlier releases"):
        publish(parse(POLICY), database.engine, secret="another key, long enough", workload=False)


def test_wrong_values() -> None:
    with pytest.raises(PolicyError, match="true or false"):
        parse(POLICY.replace("encrypt: true", "encrypt: maybe"))
