"""Attacks on journeys: by a few visits, by home and work, by the first and the last visit, by the whole journey.

In a release a target is looked for by what is left of it: visits that are suppressed tell nobody from others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.journey_checks import moves_places
from sqlanon.families import plugin
from sqlanon.itemsets.find_itemsets import know_items, walk_levels
from sqlanon.itemsets.open_items import Items, open_items
from sqlanon.paths.journeys import journey_columns
from sqlanon.paths.path_tables import PathTables
from sqlanon.paths.read_journeys import read_visits
from sqlanon.policy import Policy, Source, missing_columns
from sqlanon.relations.itemsets import member_joins
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import alias, join_clause, select, table, union_all

KNOWN_VISITS = "known_visits"
WHOLE = "whole_journey"
BY_SIGNATURE = ("home_and_work", "first_and_last", WHOLE)
NEAREST = "nearest_path"
NAMES = (KNOWN_VISITS, *BY_SIGNATURE, NEAREST)
FILES = {WHOLE: "whole_journeys"}
Matches = list[tuple[int, int]]  # persons who are found among so many: (matches, persons)


@dataclass(frozen=True)
class JourneyOutcome:
    """What an attack on journeys achieves: persons, those found among fewer than k, and the chances to find them."""

    targets: int
    broken: int
    highest: float | None
    average: float | None
    counts: str = "persons"


def attack_journeys(
    policy: Policy, engine: Engine, release: Source | None, names: Sequence[str], knowledge: int | None
) -> tuple[dict[str, tuple[int | None, JourneyOutcome, JourneyOutcome | None]], dict[str, str]]:
    """Each attack with how many visits are known, and what it achieves on the source and the release; and why others
    were not tried."""
    for name in names:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f"for journeys there are {', '.join(NAMES)}"
            raise PolicyError(f"there is no attack on journeys called '{name}'", hint=hint)
    wanted = [name for name in NAMES if not names or name in names]
    k = max([2, *(int(use.params["k"]) for use in policy.models if "k" in use.params)])
    known = knowledge or max([1, *(int(use.params[key]) for use in policy.models for key in "lm" if key in use.params)])
    refused = {}
    if NEAREST in wanted:
        wanted.remove(NEAREST)
        refused[NEAREST] = (
            "only publishing knows whose journey is whose: what it found is in the evidence of the release"
            if moves_places(policy)
            else "places are not moved: it is tried where k_delta_anonymity is published"
        )
    sides = []
    for source in (None, release) if release is not None else (None,):
        found, why = _attack_side(policy, engine, source, wanted, known, k)
        sides.append(found)
        refused |= why
    tried = {
        name: (known if name == KNOWN_VISITS else None, sides[0][name], sides[1].get(name) if len(sides) > 1 else None)
        for name in wanted
        if name in sides[0]
    }
    return tried, refused


def find_alike_journeys(policy: Policy, engine: Engine, release: Source) -> JourneyOutcome:
    """How surely somebody finds a person who knows every visit that is left of them; those who are alone are broken."""
    found, why = _attack_side(policy, engine, release, [WHOLE], 1, 2)
    if WHOLE in why:
        raise PolicyError(why[WHOLE])
    return found[WHOLE]


def _attack_side(
    policy: Policy, engine: Engine, release: Source | None, wanted: Sequence[str], known: int, k: int
) -> tuple[dict[str, JourneyOutcome], dict[str, str]]:
    rows = relation(engine.resolve(release or policy.source), engine.dialect)
    if release is None:
        missing_columns(policy, [item.name for item in engine.columns(rows)])
    items = open_items(engine, rows, journey_columns(policy, released=release is not None), prefix="sqlanon_attacked")
    found, refused = {}, {}
    try:
        for name in wanted:
            try:
                matches = count_by_visits(items, known) if name == KNOWN_VISITS else count_alike(items, policy, name)
            except PolicyError as error:
                refused[name] = error.message
                continue
            found[name] = judge_matches(matches, k)
        return found, refused
    finally:
        items.close()


def judge_matches(matches: Matches, k: int) -> JourneyOutcome:
    """What follows from how many persons fit each target: who is among fewer than k is broken."""
    targets = sum(persons for _, persons in matches)
    return JourneyOutcome(
        targets,
        sum(persons for size, persons in matches if size < k),
        max((1 / size for size, _ in matches), default=None),
        sum(persons / size for size, persons in matches) / targets if targets else None,
    )


def count_by_visits(items: Items, known: int) -> Matches:
    """For each person, the visits of up to so many that fewest persons share."""
    model = plugin("models", "km_anonymity")
    params = {"k": 2, "m": known}
    levels: list[exp.Query] = []
    for level in walk_levels(items, model, params, know_items(items, model, params), prune=False):
        same = [
            exp.column(name, table="s").eq(exp.column("item", table=f"a{place}"))
            for place, name in enumerate(level.item_columns, start=1)
        ]
        joins = member_joins(items.tables.items, level.size)
        joins.append(join_clause(table(level.sets, alias="s"), exp.and_(*same, copy=False)))
        person = exp.column("person", table="a1")
        fewest = alias(exp.Min(this=exp.column("records", table="s")), "matches")
        own = items.make(
            "known_matches",
            select(person, fewest, source=table(items.tables.items, alias="a1"), joins=joins, groups=[person.copy()]),
        )
        levels.append(select("person", "matches", source=table(own)))
    if not levels:
        return []
    with PathTables(items.engine) as tables:
        tables.define("known_matches", union_all(levels))
        return [(int(size), int(persons)) for size, persons in tables.ask("fewest_matches")]


def count_alike(items: Items, policy: Policy, name: str) -> Matches:
    """Persons by how many share what an attack knows of them."""
    with PathTables(items.engine) as tables:
        if len(policy.places) == 1:
            read_visits(tables, items, policy)
        elif name != WHOLE:
            raise PolicyError("it needs places that are one column")
        tables.define("items", select("person", "item", source=table(items.tables.items)))
        tables.make("signatures", FILES.get(name, name))
        return [(int(size), int(persons)) for size, persons in tables.ask("signature_sizes")]
