"""Histories of releases in plain Python, and the canonical relations of `sql/history/` made from them.

A release says for each person which class it is in and which sensitive value it has; counterfeit rows belong to nobody.
The last release of a history is the new one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conftest import Database
from sqlglot import exp

from sqlanon.families import family
from sqlanon.sqltree.tree import bind, with_verdict

NULL = "\u2205 NULL"  # the label of an unknown value
# The labels of a class, one for each quasi-identifier: the path from the root, so that a prefix is an ancestor.
Labels = tuple[str, ...]
# class, version, earlier class, measured, broken
Row = tuple[int | None, int | None, int | None, int, bool]

RELATIONS = {
    "classes": "class_id BIGINT, records BIGINT",
    "class_values": "class_id BIGINT, value TEXT, records BIGINT",
    "past_classes": "version BIGINT, class_id BIGINT, records BIGINT",
    "past_values": "version BIGINT, class_id BIGINT, value TEXT, records BIGINT",
    "past": "group_id BIGINT, version BIGINT, class_id BIGINT",
    "candidates": "group_id BIGINT, value TEXT",
    "moves": "group_id BIGINT, class_id BIGINT, value TEXT, records BIGINT",
    "comparable": "version BIGINT, past_class_id BIGINT, class_id BIGINT",
    "left_values": "group_id BIGINT, value TEXT, records BIGINT",
    "unknown": "value TEXT",
    "joined": "class_id BIGINT, version BIGINT, records BIGINT, ours BIGINT, theirs BIGINT",
    "joined_values": "class_id BIGINT, value TEXT, records BIGINT",
}


@dataclass(frozen=True)
class Release:
    persons: Mapping[str, tuple[int, str]]  # person to class and value
    counterfeits: Sequence[tuple[int, str]] = ()
    labels: Mapping[int, Labels] = field(default_factory=dict)  # a class that is not in it is comparable to itself

    def rows(self) -> list[tuple[int, str]]:
        """What is published: class and value of each row."""
        return [*self.persons.values(), *self.counterfeits]

    def values(self, class_id: int) -> Counter[str]:
        return Counter(value for own, value in self.rows() if own == class_id)

    def class_of(self, person: str) -> int | None:
        return self.persons[person][0] if person in self.persons else None

    def classes(self) -> set[int]:
        return {class_id for class_id, _ in self.rows()}

    def label(self, class_id: int) -> Labels:
        return self.labels.get(class_id, (f"/{class_id}/",))


def comparable(one: Labels, other: Labels) -> bool:
    """Whether the labels lie on one path from the root for every quasi-identifier."""
    return all(a.startswith(b) or b.startswith(a) for a, b in zip(one, other, strict=True))


def pasts(releases: Sequence[Release]) -> dict[str, tuple[int | None, ...]]:
    """The class of each person in every earlier release."""
    everybody = sorted({person for release in releases for person in release.persons})
    return {person: tuple(release.class_of(person) for release in releases[:-1]) for person in everybody}


def seen(past: Sequence[int | None]) -> list[tuple[int, int]]:
    """The releases that a person was in, with its class there."""
    return [(version, class_id) for version, class_id in enumerate(past, start=1) if class_id is not None]


def relations(releases: Sequence[Release]) -> dict[str, list[tuple[Any, ...]]]:
    """The canonical relations of a history."""
    *earlier, new = releases
    versions = list(enumerate(earlier, start=1))
    of_person = pasts(releases)
    known = sorted({past for past in of_person.values() if seen(past)}, key=str)
    group = {past: number for number, past in enumerate(known, start=1)}
    moves: Counter[tuple[Any, ...]] = Counter()
    for person, past in of_person.items():
        class_id, value = new.persons.get(person, (None, None))
        moves[group.get(past, 0), class_id, value] += 1

    def counted(rows: Collection[Any]) -> list[tuple[Any, ...]]:
        return [(*(key if isinstance(key, tuple) else (key,)), n) for key, n in Counter(rows).items()]

    return {
        "classes": counted([class_id for class_id, _ in new.rows()]),
        "class_values": counted(new.rows()),
        "past_classes": counted([(i, class_id) for i, release in versions for class_id, _ in release.rows()]),
        "past_values": counted([(i, *row) for i, release in versions for row in release.rows()]),
        "past": [(group[past], i, place) for past in known for i, place in seen(past)],
        "candidates": [
            (group[past], value)
            for past in known
            for value in set.intersection(*(set(earlier[i - 1].values(place)) for i, place in seen(past)))
        ],
        "moves": [(*key, n) for key, n in moves.items()],
        "comparable": [
            (i, one, other)
            for i, release in versions
            for one in release.classes()
            for other in new.classes()
            if comparable(release.label(one), new.label(other))
        ],
        "left_values": counted(
            [(group[past], last_value(earlier, who)) for who, past in of_person.items() if who not in new.persons]
        ),
        "unknown": [(NULL,)],
    }


def last_value(releases: Sequence[Release], person: str) -> str:
    """The sensitive value of a person in the latest of these releases that it was in."""
    return next(release.persons[person][1] for release in reversed(releases) if person in release.persons)


def load(database: Database, releases: Sequence[Release]) -> None:
    mark = "?" if database.engine.dialect == "duckdb" else "%s"
    connection = database.engine._connection  # type: ignore[attr-defined]
    for name, rows in relations(releases).items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({RELATIONS[name]})")
        connection.execute(f"DELETE FROM {name}")
        if rows:
            places = ", ".join("(" + ", ".join(mark for _ in row) + ")" for row in rows)
            connection.execute(f"INSERT INTO {name} VALUES {places}", [item for row in rows for item in row])


def measure(database: Database, model: str, param: int, **more: int) -> Counter[Row]:
    """All that the model measures on the relations that were loaded."""
    rows = database.fetch(with_verdict(_bound(model, param, **more)).sql(database.engine.dialect))
    return Counter((*row, verdict == 1) for *row, verdict in rows)


def violations(database: Database, model: str, param: int) -> Counter[tuple[int | None, int | None, int | None, int]]:
    """What the file itself lists: class, version, earlier class, measured."""
    return Counter(database.fetch(_bound(model, param).sql(database.engine.dialect)))


def _bound(model: str, param: int, **more: int) -> exp.Select:
    plugin = family("history")[model]
    return bind(plugin.sql, plugin.filled({plugin.params[0].name: param, **more}), {})


def sets_of_two(earlier: Release, new: Release) -> dict[tuple[int | None, int | None], list[str]]:
    """The persons of two releases by (earlier class, new class); None where they are not."""
    found = defaultdict(list)
    for person in sorted({*earlier.persons, *new.persons}):
        found[earlier.class_of(person), new.class_of(person)].append(person)
    return dict(found)
