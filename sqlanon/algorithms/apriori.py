"""Items become more general, the same for everybody, until every set of up to m of them is had by k persons.

    algorithm: apriori
    suppression_limit: 0.02

The release shows a cut through the tree of items: every item is replaced by the node of the cut above it, or by itself.
Sets of one item are looked at first, then of two, and so on; for a set that too few persons have, the sets of nodes
above it are tried, and the cut rises to the one that loses least. In the worst case all items become the root, and few
rare items can bring that about. So with a `suppression_limit` above 0 a node of such a set is left out in place of
that where this loses less, as long as no more than this share of the rows, a person with an item, is left out in all.

With `parts: 10` persons with like items come into ten parts, and each part has a cut of its own: an item may be shown
as itself in one part and as a node above it in another. Every set of labels of a part is had by k persons there, and
so by k persons or more in the release. A rare item then costs detail in one part only.

What it does not protect: which items go together; a private item stays as certain as it was. It does not always find
the cut that loses least.
cite: Terrovitis, Mamoulis and Kalnis 2008, Privacy-preserving anonymization of set-valued data (AA)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.errors import NotReleased
from sqlanon.families import AlgorithmTraits, Plugin, plugin
from sqlanon.itemsets.find_itemsets import is_of_itemsets, largest_set, require_countable
from sqlanon.itemsets.item_tree import ItemTree
from sqlanon.itemsets.open_items import basket_sizes
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems, show_labels
from sqlanon.relations.itemsets import member_joins
from sqlanon.sqltree.tree import alias, bigint, bind, count_all, join_clause, literal, nest_query, select, table

TRAITS = AlgorithmTraits(shapes=("set",))
MOST_FETCHED = 200_000  # broken sets that are looked at before all are counted again


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    parts: int = Field(
        1, ge=1, le=1000, strict=True, description="Parts of persons with like items, each with a cut of its own."
    )


def protect(task: ItemTask, params: Params) -> ProtectedItems:
    tree = task.require_tree("apriori")
    models = task.models()
    fits = [model.bounds_size_alone and is_of_itemsets(model) for model, _ in models]
    task.require_models("apriori", fits, "counts persons who share items, and nothing else")
    if not task.items.persons:
        return show_labels(task, {}, "there is no person")
    largest = [largest_set(model, given) or 0 for model, given in models]
    sizes = [int(given["k"]) for _, given in models]
    if task.items.persons < max(sizes):
        raise NotReleased(
            f"nothing can be published: {task.items.persons:,} persons have items, and k is {max(sizes)}",
            hint="even the root of the tree is had by too few persons",
        )
    limits = [max(k for k, most in zip(sizes, largest, strict=True) if most >= n) for n in range(1, max(largest) + 1)]
    parts = min(params.parts, task.items.persons // max(sizes))
    while parts > 1:
        try:
            return _protect_parts(task, tree, parts, limits, models[0][0])
        except NotReleased:  # a part has too few persons with items that may stay; larger parts have more
            parts //= 2
    search = _raise(task, tree, task.items.tables.items, limits, models[0][0])
    labels = {item: search.cut[name] for item, name in task.items.names.items()}
    return show_labels(task, labels, _say(len(set(labels.values()) - {None}), [search]))


def _raise(task: ItemTask, tree: ItemTree, read: str, limits: Sequence[int], model: Plugin) -> _Search:
    """A cut for the persons of a table: sets of one item, of two, and so on are had by so many of them."""
    search = _Search(task, tree, read)
    for size, k in enumerate(limits, start=1):
        require_countable(basket_sizes(task.items.engine, search.table), size, model)
        search.raise_cut(size, k)
    return search


def _say(labels: int, searches: Sequence[_Search]) -> str:
    what = f"a cut of {labels:,} labels" if len(searches) == 1 else f"{len(searches):,} cuts with {labels:,} labels"
    why = f"{what}, raised {sum(each.raised for each in searches):,} times"
    if dropped := sum(each.dropped for each in searches):
        why += f"; {dropped:,} labels left out, which lost less"
    return why


def _protect_parts(task: ItemTask, tree: ItemTree, number: int, limits: Sequence[int], model: Plugin) -> ProtectedItems:
    items = task.items

    def bound(file: str, params: Mapping[str, int], **relations: str) -> exp.Query:
        return bind(plugin("itemsets", file).sql, dict(params), relations)

    order = items.make("person_order", bound("person_order", {}, items=items.tables.items,
                                             person_numbers=items.tables.persons))  # fmt: skip
    parts = items.make("person_parts", bound("person_parts", {"parts": number}, person_order=order))
    searches = []
    for part in range(1, number + 1):
        own = bound("part_items", {"part": part}, items=items.tables.items, person_parts=parts)
        searches.append(_raise(task, tree, items.make("part_items", own), limits, model))
    shown: list[tuple[int, int, str]] = []
    lost, gone = 0.0, 0
    for part, search in enumerate(searches, start=1):
        for name, label in search.cut.items():
            rows = search.occurrences[name]
            lost += rows * task.loss(items.numbers[name], label)
            if label is None:
                gone += rows
            else:
                shown.append((part, items.numbers[name], label))
    if not shown:
        raise NotReleased(
            "nothing was published: every item would have to be suppressed", hint="ask for less in 'models'"
        )
    listed = items.load("part_labels", ("part", "item", "label"), shown)
    same_part = bigint(exp.column("part", table="l")).eq(exp.column("part", table="p"))
    same_item = bigint(exp.column("item", table="l")).eq(exp.column("item", table="i"))
    same_person = exp.column("person", table="p").eq(exp.column("person", table="i"))
    rows_shown = select(
        exp.column("person", table="i"),
        exp.column("label", table="l"),
        source=table(items.tables.items, alias="i"),
        joins=[
            join_clause(table(parts, alias="p"), same_person),
            join_clause(table(listed, alias="l"), exp.and_(same_part, same_item, copy=False)),
        ],
    ).distinct()
    told = "\n".join(f"{part}\t{items.names[item]}\t{label}" for part, item, label in sorted(shown))
    labels = len({label for _, _, label in shown})
    kept = {item for _, item, _ in shown}
    return ProtectedItems(
        rows_shown,
        lost / items.occurrences,
        gone,
        _say(labels, searches),
        measured={"labels": labels, "suppressed_items": len(items.names) - len(kept), "parts": number},
        digest=hashlib.sha256(told.encode()).hexdigest(),
    )


@dataclass
class _Search:
    """A cut through the tree, and who has which of its nodes, as a table that changes with it."""

    task: ItemTask
    tree: ItemTree
    read: str  # who has which item
    raised: int = 0
    dropped: int = 0
    budget: int = 0  # rows that may still be left out
    table: str = ""
    cut: dict[str, str | None] = field(default_factory=dict)  # leaf to node, of the items that occur; None if left out
    numbers: dict[str, int] = field(default_factory=dict)  # of nodes
    names: dict[int, str] = field(default_factory=dict)
    occurrences: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        items = self.task.items
        self.table = items.make("at_cut", select("person", "item", source=table(self.read)))
        counted = items.engine.query(bind(plugin("itemsets", "item_counts").sql, {}, {"items": self.read}))
        self.occurrences = {items.names[int(item)]: int(persons) for item, persons in counted}
        self.cut = {name: name for name in self.occurrences}
        self.numbers = dict(items.numbers)
        next_number = max(self.numbers.values(), default=0) + 1
        for place, node in enumerate(sorted(self.tree.nodes - set(self.numbers)), start=next_number):
            self.numbers[node] = place
        self.names = {number: name for name, number in self.numbers.items()}
        self.budget = int(self.task.policy.suppression_limit * sum(self.occurrences.values()) + 1e-9)

    def raise_cut(self, size: int, k: int) -> None:
        """Until no set of so many nodes is had by fewer than k persons."""
        broken, whole = self._broken(size, k)
        while True:
            if not broken:
                if whole:
                    return
                broken, whole = self._broken(size, k)
                continue
            worst = min(broken, key=lambda nodes: (broken[nodes], sorted(self.names[node] for node in nodes)))
            nodes = [self.names[number] for number in worst]
            rise, lost = self._chosen(nodes, k)
            rare, cost = self._rarest(nodes)
            if rare is not None and (rise is None or cost < lost):
                gone = self._drop(rare)
                broken = {each: n for each, n in broken.items() if not gone & each}
                continue
            if rise is None:
                raise NotReleased(
                    "even the root of the tree of items is had by too few persons",
                    hint="allow to leave rare items out with 'suppression_limit'",
                )
            for node in rise:
                gone = self._move(node)
                broken = {each: n for each, n in broken.items() if not gone & each}
                broken |= self._broken(size, k, self.numbers[node])[0]

    def _broken(self, size: int, k: int, node: int | None = None) -> tuple[dict[frozenset[int], int], bool]:
        """Sets of nodes of the cut that fewer than k persons have, all of them or those with one node; and whether
        these are all."""
        first, joins, where = exp.column("item", table="a1"), member_joins(self.table, size), None
        if node is not None:
            where = first.copy().eq(literal(node))
            joins = _joins_with(self.table, size)
        chosen = [alias(exp.column("item", table=f"a{place}"), f"x{place}") for place in range(1, size + 1)]
        groups = [exp.column("item", table=f"a{place}") for place in range(1, size + 1)]
        tree = select(
            *chosen,
            alias(count_all(), "n"),
            source=table(self.table, alias="a1"),
            joins=joins,
            where=where,
            groups=groups,
        )
        few = tree.having(count_all() < literal(k), copy=False)
        listed = select(exp.Star(), source=nest_query(few, "few")).order_by("n", copy=False).limit(MOST_FETCHED + 1)
        found = self.task.items.engine.query(listed)
        kept = {frozenset(map(int, nodes)): int(n) for *nodes, n in found[:MOST_FETCHED]}
        return kept, len(found) <= MOST_FETCHED

    def _chosen(self, nodes: list[str], k: int) -> tuple[list[str] | None, float]:
        """The nodes that the cut rises to, so that at least k persons have them all in place of the given ones, and
        what that loses more; None where there are none."""
        paths = [[node, *self.tree.above(node)] for node in nodes]
        candidates = {self._without_contained(chosen) for chosen in product(*paths)} - {frozenset(nodes)}
        for candidate in sorted(candidates, key=lambda each: (self._loss(each), sorted(each))):
            if self._support(sorted(candidate)) >= k:
                return [node for node in sorted(candidate) if node not in nodes], self._loss(candidate)
        return None, 0.0

    def _rarest(self, nodes: list[str]) -> tuple[str | None, float]:
        """The node that is cheapest to leave out, and what that loses more; None where too many rows would go."""
        costs = []
        for node in nodes:
            leaves = [leaf for leaf in self.tree.leaves_below(node) if self.cut.get(leaf) == node]
            rows = sum(self.occurrences[leaf] for leaf in leaves)
            if rows <= self.budget:
                costs.append((round(rows * (1 - self.tree.loss(node)), 9), node))
        cost, node = min(costs, default=(0.0, ""))
        return (node, cost) if costs else (None, 0.0)

    def _drop(self, node: str) -> set[int]:
        """Leave a node out of all sets."""
        leaves = [leaf for leaf in self.tree.leaves_below(node) if self.cut.get(leaf) == node]
        own = exp.column("item").eq(literal(self.numbers[node]))
        self.task.items.engine.execute(exp.Delete(this=table(self.table), where=exp.Where(this=own)))
        self.budget -= sum(self.occurrences[leaf] for leaf in leaves)
        self.cut |= dict.fromkeys(leaves, None)
        self.dropped += 1
        return {self.numbers[node]}

    def _without_contained(self, nodes: tuple[str, ...]) -> frozenset[str]:
        return frozenset(node for node in nodes if not set(self.tree.above(node)) & set(nodes))

    def _loss(self, candidate: frozenset[str]) -> float:
        """What the cut would lose more if it rose to these nodes."""
        more = 0.0
        for node in candidate:
            for leaf in self.tree.leaves_below(node):
                if (own := self.cut.get(leaf)) is not None:
                    more += self.occurrences[leaf] * (self.tree.loss(node) - self.tree.loss(own))
        return round(more, 9)

    def _below(self, node: str) -> list[int]:
        """The nodes of the cut that a node covers."""
        own = {self.cut.get(leaf) for leaf in self.tree.leaves_below(node)} - {None}
        return sorted(self.numbers[each] for each in own if each is not None)

    def _support(self, nodes: list[str]) -> int:
        """How many persons have something below each of these nodes."""
        joins, where = [], _is_in("a1", self._below(nodes[0]))
        for place, node in enumerate(nodes[1:], start=2):
            same = exp.column("person", table=f"a{place}").eq(exp.column("person", table="a1"))
            on = exp.and_(same, _is_in(f"a{place}", self._below(node)), copy=False)
            joins.append(join_clause(table(self.table, alias=f"a{place}"), on))
        persons = exp.Count(this=exp.Distinct(expressions=[exp.column("person", table="a1")]), big_int=True)
        tree = select(persons, source=table(self.table, alias="a1"), joins=joins, where=where)
        return int(self.task.items.engine.query(tree)[0][0])

    def _move(self, node: str) -> set[int]:
        """Raise the cut to a node; the nodes that are no longer in it."""
        gone, number, engine = self._below(node), self.numbers[node], self.task.items.engine
        own = exp.column("item").isin(*(literal(each) for each in gone))
        people = select("person", alias(literal(number), "item"), source=table(self.table), where=own).distinct()
        moved = self.task.items.make("moved", people)
        engine.execute(exp.Delete(this=table(self.table), where=exp.Where(this=own.copy())))
        added = select("person", "item", source=table(moved))
        engine.execute(exp.Insert(this=table(self.table), expression=added))
        engine.drop_temporary([moved])
        for leaf in self.tree.leaves_below(node):
            if self.cut.get(leaf) is not None:
                self.cut[leaf] = node
        self.raised += 1
        return set(gone)


def _joins_with(items: str, size: int) -> list[exp.Join]:
    """Persons with a first item, and all sets of their other items."""
    joins = []
    for place in range(2, size + 1):
        own = f"a{place}"
        conditions = [
            exp.column("person", table=own).eq(exp.column("person", table="a1")),
            exp.column("item", table=own).neq(exp.column("item", table="a1")),
        ]
        if place > 2:
            conditions.append(exp.column("item", table=own) > exp.column("item", table=f"a{place - 1}"))
        joins.append(join_clause(table(items, alias=own), exp.and_(*conditions, copy=False)))
    return joins


def _is_in(name: str, numbers: list[int]) -> exp.Expr:
    if not numbers:
        return exp.false()
    return exp.column("item", table=name).isin(*(literal(number) for number in numbers))
