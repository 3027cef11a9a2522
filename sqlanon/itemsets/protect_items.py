"""What algorithms of sets of items are given, and what they give back: who is shown with which label."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.errors import NotReleased
from sqlanon.families import Plugin, plugin
from sqlanon.itemsets.item_tree import ItemTree
from sqlanon.itemsets.open_items import Items
from sqlanon.policy import Policy
from sqlanon.relations.bucketization import GROUP
from sqlanon.sqltree.tree import alias, bigint, join_clause, nest_query, select, table, window


@dataclass(frozen=True)
class ItemTask:
    """A policy with the items of its persons. `tree` is there if the policy has a hierarchy of items."""

    policy: Policy
    items: Items
    tree: ItemTree | None

    def models(self) -> list[tuple[Plugin, Mapping[str, Any]]]:
        """The privacy models with their parameters."""
        found = [(plugin("models", use.name), use.params) for use in self.policy.models]
        return [(model, model.filled(params)) for model, params in found]

    @property
    def absent(self) -> str:
        return self.policy.absent_values

    def require_tree(self, algorithm: str) -> ItemTree:
        if self.tree is None:
            (column,) = self.policy.items
            hint = f"write for example 'hierarchies: {{{column}: {{csv: {{path: {column}.csv}}}}}}'"
            raise self.policy.error(f"{algorithm} needs a hierarchy of '{column}'", "algorithm", hint=hint)
        return self.tree

    def require_models(self, algorithm: str, fits: Sequence[bool], what: str) -> None:
        """Refuse models that an algorithm does not reach."""
        for use, fit in zip(self.policy.models, fits, strict=True):
            if not fit:
                raise self.policy.error(f"{algorithm} does not reach {use.name}: it {what}", "algorithm")

    def loss(self, item: int, label: str | None) -> float:
        """The share of all other items that a label leaves open; all of them where the item is suppressed."""
        if label is None:
            return 1.0
        return self.tree.loss(label) if self.tree is not None and label != self.items.names[item] else 0.0


@dataclass(frozen=True)
class ProtectedItems:
    """How a release shows its persons. `rows` are (person, label), once each."""

    rows: exp.Select
    loss: float
    suppressed: int  # occurrences of items
    why: str
    proven: bool = False
    measured: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    groups: str | None = None  # the table of the group of each person, where a release shows it
    companions: Mapping[str, exp.Select] = field(default_factory=dict)  # further tables, by what is added to the name


def show_labels(task: ItemTask, labels: Mapping[int, str | None], why: str, *, proven: bool = False) -> ProtectedItems:
    """Each item with one label for all persons; None where it is suppressed."""
    items = task.items
    shown = [(item, label) for item, label in labels.items() if label is not None]
    if not shown:
        raise NotReleased(
            "nothing was published: every item would have to be suppressed",
            hint="ask for less in 'models', or give the items a hierarchy",
        )
    named = items.load("labels", ("item", "label"), shown)
    same = bigint(exp.column("item", table="l")).eq(exp.column("item", table="i"))
    rows = select(
        exp.column("person", table="i"),
        exp.column("label", table="l"),
        source=table(items.tables.items, alias="i"),
        joins=[join_clause(table(named, alias="l"), same)],
    ).distinct()
    gone = [item for item, label in labels.items() if label is None]
    lost = sum(items.supports[item] * task.loss(item, label) for item, label in labels.items())
    told = "\n".join(f"{items.names[item]}\t{label}" for item, label in sorted(shown))
    return ProtectedItems(
        rows,
        lost / items.occurrences,
        sum(items.supports[item] for item in gone),
        why,
        proven,
        {"labels": len({label for _, label in shown}), "suppressed_items": len(gone)},
        hashlib.sha256(told.encode()).hexdigest(),
    )


def number_persons(
    rows: exp.Select, task: ItemTask, item: str, number: str, *, groups: str | None = None
) -> exp.Select:
    """The release: a fresh random number for each person who is shown, the label of the item, the sensitive value, and
    the group where there are `groups`. The number says nothing of who it is, nor of the order in which the source has
    them."""
    items = task.items
    made = items.make("shown_items", rows)
    people = nest_query(select("person", source=table(made)).distinct(), "p")
    drawn = items.make("drawn", select("person", alias(exp.Rand(), "draw"), source=people))
    place = window(exp.RowNumber(), order=[exp.column("draw"), exp.column("person")])
    numbers = items.make("shown_persons", select("person", alias(place, "number"), source=table(drawn)))
    same = exp.column("person", table="n").eq(exp.column("person", table="i"))
    chosen: list[exp.Expr] = [
        alias(exp.column("number", table="n"), number, quoted=True),
        alias(exp.column("label", table="i"), item, quoted=True),
    ]
    joins = [join_clause(table(numbers, alias="n"), same)]
    tables = items.tables
    if tables.owners is not None and tables.values is not None and items.columns.sensitive is not None:
        owner = exp.column("person", table="o").eq(exp.column("person", table="i"))
        value = exp.column("value_id", table="v").eq(exp.column("value", table="o"))
        joins.append(join_clause(table(tables.owners, alias="o"), owner))
        joins.append(join_clause(table(tables.values, alias="v"), value))
        chosen.append(alias(exp.column("value", table="v"), items.columns.sensitive, quoted=True))
    if groups is not None:
        own = exp.column("person", table="g").eq(exp.column("person", table="i"))
        joins.append(join_clause(table(groups, alias="g"), own))
        chosen.insert(0, alias(exp.column("group_id", table="g"), GROUP, quoted=True))
    return select(*chosen, source=table(made, alias="i"), joins=joins)
