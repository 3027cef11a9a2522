"""How many persons somebody finds who knows a few of their items, in a source or in a release of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.item_checks import item_columns
from sqlanon.itemsets.find_itemsets import MOST_SETS, count_sets
from sqlanon.itemsets.open_items import Items, open_items
from sqlanon.policy import Policy, Source
from sqlanon.relations.itemsets import (
    fewest_matches,
    fewest_of_size,
    fewest_without,
    first_level,
    least_matches,
    next_level,
    set_values,
)
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import alias, count_all, select, table

ATTACKERS = ("known items", "known items, and how many there are", "known items, and one that is not there")


@dataclass(frozen=True)
class ItemsKnown:
    """What so many items of a person tell: how many persons are alone with some, and the chance to find them."""

    attacker: str
    items: int
    singled_out: int
    fewest: int | None  # how many persons share the rarest set
    average: float | None  # mean chance to find a person by the items that suit the attacker best


@dataclass(frozen=True)
class ItemRisk:
    """Numbers alone: nothing in it tells of a single person."""

    persons: int
    rows: int
    known: tuple[ItemsKnown, ...]


def item_risk(policy: Policy, engine: Engine, *, release: Source | None = None, knowledge: int = 3) -> ItemRisk:
    """The share of persons who are found by up to `knowledge` of their items; in a release, by their labels."""
    if knowledge < 1:
        raise PolicyError("'knowledge' must be >= 1: an attacker knows at least one item of a person")
    rows = relation(engine.resolve(release or policy.source), engine.dialect)
    items = open_items(engine, rows, item_columns(policy, released=release is not None), prefix="sqlanon_risk")
    try:
        return ItemRisk(items.persons, items.occurrences, tuple(measure_known(items, knowledge, ATTACKERS)))
    finally:
        items.close()


def as_data(found: ItemRisk) -> dict[str, Any]:
    """A risk as mappings, lists and numbers."""
    return asdict(found)


def measure_known(items: Items, knowledge: int, attackers: Sequence[str]) -> list[ItemsKnown]:
    """An attacker who knows so many items or fewer; one who also knows how many there are; and one who also knows an
    item that is not there: as many of them as there are names for."""
    found = [
        _summarize(attacker, size, matches) for attacker, size, matches in count_known(items, knowledge, attackers)
    ]
    return sorted(found, key=lambda item: (attackers.index(item.attacker), item.items))


def count_known(
    items: Items, knowledge: int, attackers: Sequence[str]
) -> Iterator[tuple[str, int, list[tuple[int, int]]]]:
    """The same as pairs for each attacker and number of items: so few persons fit, for so many persons."""
    engine, read = items.engine, items.tables.items
    owned = items.make("owned", select("person", alias(exp.column("item"), "value"), source=table(read)))
    names = ["level", "fine", "values", "known", "sized", "without", "next"]
    level, fine, values, known, sized, without, following = (f"{items.prelude.prefix}_{name}" for name in names)
    try:
        for size in range(1, min(knowledge, max(items.sizes, default=0)) + 1):
            _require_countable(items, size, beside=len(attackers) > 2)
            engine.create_temporary(level, first_level(read) if size == 1 else next_level(read, fine, size))
            attempts: list[tuple[str, list[exp.Query]]] = [
                (known, [fewest_matches(read, level, size)]),
                (sized, [fewest_of_size(read, level, size)]),
            ]
            if len(attackers) > 2:
                engine.create_temporary(values, set_values(read, level, owned, size, items_too=True))
                absent: list[exp.Query] = [fewest_matches(read, level, size), fewest_without(read, level, size, values)]
                attempts.append((without, absent))
            for attacker, (name, queries) in zip(attackers, attempts, strict=False):
                if size > 1:
                    queries.append(select("person", "fewest", source=table(name)))
                engine.create_temporary(following, least_matches(*queries))
                engine.create_temporary(name, select("person", "fewest", source=table(following)))
                yield attacker, size, _counted(items, name)
            engine.create_temporary(fine, select(exp.Star(), source=table(level)))
    finally:
        with suppress(SqlanonError):  # of a connection that is lost; what broke it is the error to show
            engine.drop_temporary([level, fine, values, known, sized, without, following])


def _require_countable(items: Items, size: int, *, beside: bool) -> None:
    """Refuse what would be counted for hours: the sets of so many items, and each beside all other items of its
    persons."""
    work = count_sets(items.sizes, size)
    if beside:
        pairs = (persons * math.comb(own, size) * (own - size) for own, persons in items.sizes.items() if own > size)
        work = max(work, sum(pairs))
    if work <= MOST_SETS:
        return
    less = f"ask for '--knowledge {size - 1}', or " if size > 1 else ""
    raise PolicyError(
        f"more than {MOST_SETS:.0e} sets of {size} items{', each beside another item,' * beside} would be counted",
        hint=f"{less}leave out persons with very many items with 'query:'; one has {max(items.sizes):,}",
    )


def _counted(items: Items, matches: str) -> list[tuple[int, int]]:
    found = items.engine.query(select("fewest", count_all(), source=table(matches), groups=["fewest"]))
    return sorted((int(fewest), int(persons)) for fewest, persons in found)


def _summarize(attacker: str, size: int, matches: Sequence[tuple[int, int]]) -> ItemsKnown:
    persons = sum(number for _, number in matches)
    chances = sum(number / fewest for fewest, number in matches)
    return ItemsKnown(
        attacker,
        size,
        sum(number for fewest, number in matches if fewest == 1),
        min((fewest for fewest, _ in matches), default=None),
        chances / persons if persons else None,
    )
