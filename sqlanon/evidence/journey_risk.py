"""How many persons somebody finds who knows a few of their visits, in a source or in a release of it."""

from __future__ import annotations

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.evidence.item_risk import ItemRisk, ItemsKnown, measure_known
from sqlanon.evidence.journey_checks import moves_places, require_order
from sqlanon.itemsets.open_items import open_items
from sqlanon.paths.journeys import journey_columns
from sqlanon.policy import Policy, Source, missing_columns
from sqlanon.relations.itemsets import ItemColumns
from sqlanon.relations.source import relation

VISITS = ("known visits", "known visits, and how many there are", "known visits, and a place and time without one")
PLACES = ("known places, without times",)


def journey_risk(policy: Policy, engine: Engine, *, release: Source | None = None, knowledge: int = 3) -> ItemRisk:
    """The share of persons who are found by up to `knowledge` of their visits, or of their places; in a release, by its
    labels."""
    if knowledge < 1:
        raise PolicyError("'knowledge' must be >= 1: an attacker knows at least one visit of a person")
    if release is not None and moves_places(policy):
        raise PolicyError(
            "the release shows places where nobody was, so that nobody is found by a visit",
            hint="'sqlanon publish' says how often the nearest published journey is the right one",
        )
    rows = relation(engine.resolve(release or policy.source), engine.dialect)
    available = [item.name for item in engine.columns(rows)]
    if release is None:
        missing_columns(policy, available)
        require_order(engine, rows, policy)
    own = journey_columns(policy, released=release is not None)
    found: list[ItemsKnown] = []
    persons = visits = 0
    # Those who know places do not know how often somebody was there.
    for items_of, attackers in ((own.items, VISITS), (policy.places, PLACES)):
        columns = ItemColumns(own.person, items_of, None)
        items = open_items(engine, rows.copy(), columns, prefix="sqlanon_risk")
        try:
            found += measure_known(items, knowledge, attackers)
            persons, visits = max(persons, items.persons), max(visits, items.occurrences)
        finally:
            items.close()
    return ItemRisk(persons, visits, tuple(found))
