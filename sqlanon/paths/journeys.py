"""The journeys of a policy: its rows with times and places on chosen levels, and what an algorithm makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import plugin
from sqlanon.hierarchies import Hierarchy
from sqlanon.itemsets.find_itemsets import BrokenSet, is_of_itemsets, know_items, walk_levels
from sqlanon.itemsets.open_items import Items, open_items
from sqlanon.policy import ModelUse, Policy
from sqlanon.relations.classes import Prelude
from sqlanon.relations.hierarchy_lookups import recode_columns
from sqlanon.relations.itemsets import PERSON_NUMBER, ItemColumns
from sqlanon.sqltree.tree import alias, join_clause, literal, nest_query, select, table, window

GROUP_NUMBER = "group_number"  # of a release whose journeys are drawn together
MOST_FREQUENT = 500_000  # sequences that are compared with each other to find the maximal ones


def journey_columns(policy: Policy, *, released: bool = False) -> ItemColumns:
    """Which columns make a doublet: the time and the place, and how long; in a release a number stands in place of the
    person."""
    assert policy.person is not None
    sensitive = policy.sensitive[0] if policy.sensitive else None
    person = PERSON_NUMBER if released else policy.person
    return ItemColumns(person, policy.visit_columns, sensitive)


@dataclass(frozen=True)
class JourneyRelease:
    """The SELECT of a release, and what it cost. `records` are the visits on the levels of the release, or positions,
    before any is suppressed; `visits` are those of the release."""

    select: exp.Select
    records: int
    visits: int
    persons: int
    why: str
    levels: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    loss: float = 0.0  # the share of visits, or of positions, that are not shown
    proven: bool = False


@dataclass
class Journeys:
    """The rows of a policy, for one algorithm; what it makes goes when they are closed."""

    policy: Policy
    engine: Engine
    rows: exp.Select
    hierarchies: Mapping[str, Hierarchy]
    prelude: Prelude
    opened: list[Items] = field(default_factory=list)
    closing: list[Callable[[], None]] = field(default_factory=list)

    def recode(self, levels: Mapping[str, int]) -> exp.Select:
        """The rows with times and places on these levels of their hierarchies."""
        columns = journey_columns(self.policy)
        for name, level in levels.items():
            if name not in columns.items:
                hint = did_you_mean(name, columns.items) or f"the columns are {', '.join(columns.items)}"
                raise PolicyError(f"'levels' names '{name}', which is no time, place or stay", hint=hint)
            height = self.hierarchies[name].height if name in self.hierarchies else 0
            if not 0 <= level <= height:
                raise PolicyError(
                    f"'{name}' has no level {level}", hint=f"its levels are 0 to {height}; level 0 is the value itself"
                )
        before = len(self.prelude.steps)
        tree = recode_columns(
            self.prelude,
            self.rows.copy(),
            dict(self.hierarchies),
            dict(levels),
            {name: name for name in columns.needed},
        )
        run_steps(self.engine, self.prelude.steps[before:])
        return tree

    def open(self, levels: Mapping[str, int]) -> Items:
        """Who was where and when, on these levels."""
        columns = journey_columns(self.policy)
        # The check of what is written has tables of its own.
        items = open_items(self.engine, self.recode(levels), columns, prefix="sqlanon_protected")
        self.opened.append(items)
        return items

    def close(self) -> None:
        for close in reversed(self.closing):
            close()
        for items in self.opened:
            items.close()
        drop_steps(self.engine, self.prelude.steps)

    def types(self, levels: Mapping[str, int]) -> dict[str, exp.DataType]:
        """The types of the columns of the release: on level 0 as in the source, above it text."""
        kinds = {item.name: item.type for item in self.engine.columns(self.rows)}
        return {
            name: exp.DataType.build("text")
            if levels.get(name)
            else exp.DataType.build(kinds[name], dialect=self.engine.dialect)
            for name in journey_columns(self.policy).items
        }


def find_broken(items: Items, policy: Policy, uses: Sequence[ModelUse]) -> list[BrokenSet]:
    """The minimal sets of doublets that break any of these models."""
    found: dict[tuple[int, ...], BrokenSet] = {}
    for use in uses:
        model = plugin("models", use.name)
        if not is_of_itemsets(model):
            raise PolicyError(
                f"{use.name} is not kept by suppressing doublets", hint="give it an algorithm of its own: see its page"
            )
        filled = model.filled(use.params)
        known = know_items(items, model, filled, absent=policy.absent_values or "refuse")
        for level in walk_levels(items, model, use.params, known):
            if level.broken:
                found |= {item.items: item for item in level.broken_sets()}
    return [found[own] for own in sorted(found) if not _holds_another(own, found)]


def _holds_another(own: tuple[int, ...], found: Mapping[tuple[int, ...], BrokenSet]) -> bool:
    """Whether a set without some of its items is broken as well, by another model."""
    parts = {own[:place] + own[place + 1 :] for place in range(len(own))} - {()}
    return any(part in found or _holds_another(part, found) for part in parts) if len(own) > 1 else False


def find_frequent(items: Items, support: int, longest: int) -> list[frozenset[int]]:
    """The sequences of up to so many doublets that at least `support` persons have."""
    model = plugin("models", "km_anonymity")
    params = {"k": support, "m": longest}
    found: list[frozenset[int]] = []
    for level in walk_levels(items, model, params, know_items(items, model, params)):
        if level.number - level.broken + len(found) > MOST_FREQUENT:
            raise PolicyError(
                f"more than {MOST_FREQUENT:,} sequences are frequent",
                hint="take a larger 'support', or a smaller 'longest'",
            )
        same = exp.column("class_id", table="r").eq(exp.column("class_id", table="s"))
        tree = select(
            *(exp.column(name, table="s") for name in level.item_columns),
            source=table(level.sets, alias="s"),
            joins=[join_clause(table(level.result, alias="r"), same)],
            where=exp.column("broken", table="r").eq(0),
        )
        found += [frozenset(map(int, row)) for row in items.engine.query(tree)]
    return found


def number_persons(items: Items, kept: str, number: str = PERSON_NUMBER, person: str = "person") -> str:
    """A random number for each person of a table, which tells nothing of their names: (person, person_number)."""
    people = nest_query(select(person, source=table(kept)).distinct(), "p")
    drawn = items.make("drawn", select(person, alias(exp.Rand(), "draw"), source=people))
    place = window(exp.RowNumber(), order=[exp.column("draw"), exp.column(person)])
    return items.make("random_numbers", select(person, alias(place, number), source=table(drawn)))


def release_doublets(journeys: Journeys, items: Items, kept: str, levels: Mapping[str, int]) -> exp.Select:
    """The rows of the release from `kept(person, item)`: numbers of persons, labels, the sensitive value."""
    columns = journey_columns(journeys.policy)
    numbers = number_persons(items, kept)
    types = journeys.types(levels)
    same_item = exp.column("item", table="n").eq(exp.column("item", table="k"))
    same_person = exp.column("person", table="p").eq(exp.column("person", table="k"))
    chosen: list[exp.Expr | str] = [exp.column(PERSON_NUMBER, table="p")]
    chosen += [
        alias(exp.Cast(this=exp.column(own, table="n"), to=types[name].copy()), name, quoted=True)
        for own, name in zip(columns.names, columns.items, strict=True)
    ]
    joins = [
        join_clause(table(items.tables.names, alias="n"), same_item),
        join_clause(table(numbers, alias="p"), same_person),
    ]
    joins += add_sensitive(items, columns, chosen, "k")
    return select(*chosen, source=table(kept, alias="k"), joins=joins)


def add_sensitive(items: Items, columns: ItemColumns, chosen: list[exp.Expr | str], persons: str) -> list[exp.Join]:
    """The joins that bring the sensitive value of a person, which is added to what is chosen."""
    if columns.sensitive is None:
        return []
    assert items.tables.owners is not None and items.tables.values is not None
    chosen.append(alias(exp.column("value", table="v"), columns.sensitive, quoted=True))
    owner = exp.column("person", table="o").eq(exp.column("person", table=persons))
    value = exp.column("value_id", table="v").eq(exp.column("value", table="o"))
    return [
        join_clause(table(items.tables.owners, alias="o"), owner),
        join_clause(table(items.tables.values, alias="v"), value),
    ]


def without_items(items: Items, chosen: Sequence[int]) -> str:
    """Who has which item, without some items."""
    where = exp.not_(exp.column("item").isin(*(literal(item) for item in chosen))) if chosen else None
    return items.make("kept_items", select("person", "item", source=table(items.tables.items), where=where))
