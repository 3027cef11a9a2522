"""The persons and the classes of a release of `m_invariance`, as an attacker reads them who knows all persons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets, fits_of
from sqlanon.evidence.attacks.invariance_worlds import Class, ObservedRelease, Person, curve
from sqlanon.policy import Policy
from sqlanon.relations.attacks import unit_relations as relations
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.hierarchy_lookups import depth_first
from sqlanon.relations.history_relations import CLASS
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import select, table

MOST_PERSONS = 2_000


@dataclass(frozen=True)
class Listed:
    """A release with its persons. `units` says which number the quasi-identifiers of a person have; `numbered` is the
    table that has these numbers."""

    release: ObservedRelease
    units: Mapping[str, int]
    numbered: str


def read_release(policy: Policy, people: Targets, side: Side, attribute: str) -> Listed:
    """`people` are those who may be in the release that `side` is."""
    engine, person = side.work.engine, policy.person
    assert person is not None
    if people.grouping.person is None or set(people.known) != set(policy.quasi_identifiers):
        raise NotJudged(f"the persons of a release need '{person}' and all quasi-identifiers")
    rows = people.work.prelude.rows
    kind = next(item.type for item in engine.columns(rows) if item.name == person)
    types = {name: people.types[name] for name in policy.quasi_identifiers}
    numbered = relations.number_units(side.prelude, rows, types, {person: kind})
    side.work.run()
    listed = engine.query(relations.list_persons(numbered, len(types), MOST_PERSONS + 1))
    if len(listed) > MOST_PERSONS:
        raise NotJudged(f"more than {MOST_PERSONS:,} persons have too many ways to be placed")
    if any(NULL_NODE in row for row in listed):
        raise NotJudged("a person or a quasi-identifier is NULL")
    places = [_places(side, name, rows, type_) for name, type_ in types.items()]
    leaves = [len(known) for known in places]
    persons = [
        Person(str(key), tuple(known.get(str(value), 0) for known, value in zip(places, values, strict=True)))
        for _, key, *values in listed
    ]
    if any(0 in person.places for person in persons):
        raise NotJudged("a hierarchy does not list all values of its column")
    units = {str(key): int(unit) for unit, key, *_ in listed}
    if len(units) != len(persons):
        raise NotJudged(f"a person of '{person}' has several rows")
    persons.sort(key=lambda each: curve(each.places, leaves))  # persons at one place stay in the order of their keys
    return Listed(ObservedRelease(persons, _classes(policy, people, side, attribute, places)), units, numbered)


def _places(side: Side, name: str, rows: exp.Select, type_: str) -> dict[str, int]:
    """Where the leaves of a quasi-identifier stand in a row, as the algorithm orders them."""
    hierarchy = side.compiler.hierarchies.get(name)
    if hierarchy is not None and hierarchy.relation is not None:
        raise NotJudged(f"the hierarchy of '{name}' is a table, whose order is not looked at")
    if hierarchy is not None and hierarchy.rows:
        leaves = depth_first(hierarchy.rows)
    else:
        ordered = relations.order_values(rows, name, type_, side.work.engine.dialect)
        leaves = [str(value) for (value,) in side.work.engine.query(ordered)]
    return {leaf: place for place, leaf in enumerate(leaves, start=1)}


def _classes(
    policy: Policy, people: Targets, side: Side, attribute: str, places: Sequence[Mapping[str, int]]
) -> dict[Class, int]:
    """The classes by their box and their values. A range ends where somebody stands, so that a label tells its box."""
    engine = side.work.engine
    main = relation(side.compiler.source, engine.dialect)
    if CLASS not in [item.name for item in engine.columns(main)]:
        raise NotJudged(f"the release has no column '{CLASS}'")
    ends = _ends(policy, people, side, places)
    names = [CLASS, attribute, *policy.quasi_identifiers]
    labels: dict[str, set[tuple[str, ...]]] = {}
    values: dict[str, list[str]] = {}
    for number, value, *row in engine.query(relations.list_rows(main, names, 4 * MOST_PERSONS)):
        labels.setdefault(str(number), set()).add(tuple(map(str, row)))
        values.setdefault(str(number), []).append(str(value))
    found: dict[Class, int] = {}
    for number, own in values.items():
        if len(labels[number]) > 1 or len(set(own)) < len(own):
            raise NotJudged("the classes are not such as m_invariance makes")
        (shown,) = labels[number]
        lacking = [name for name, label in zip(policy.quasi_identifiers, shown, strict=True) if label not in ends[name]]
        if lacking:
            raise NotJudged(f"nobody is covered by a label of '{lacking[0]}'")
        box = tuple(ends[name][label] for name, label in zip(policy.quasi_identifiers, shown, strict=True))
        kind = (box, frozenset(own))
        found[kind] = found.get(kind, 0) + 1
    return found


def _ends(
    policy: Policy, people: Targets, side: Side, places: Sequence[Mapping[str, int]]
) -> dict[str, dict[str, tuple[int, int]]]:
    """For each quasi-identifier and label, the first and the last place of persons whom the label covers."""
    found = {}
    for name, fits in zip(side.known(people), fits_of(people, side), strict=True):
        place = places[policy.quasi_identifiers.index(name)]
        reached: dict[str, list[int]] = {}
        for value, label in side.work.engine.query(select("value", "label", source=table(fits))):
            reached.setdefault(str(label), []).append(place.get(str(value), 0))
        ends = {label: [at for at in own if at] for label, own in reached.items()}
        found[name] = {label: (min(own), max(own)) for label, own in ends.items() if own}
    return found
