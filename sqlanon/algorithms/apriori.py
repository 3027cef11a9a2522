"""Items become more general, the same for everybody, until every set of up to m of them is had by k persons.

    algorithm: apriori

The release shows a cut through the tree of items: every item is replaced by the node of the cut above it, or by itself.
Sets of one item are looked at first, then of two, and so on; for a set that too few persons have, the sets of nodes
above it are tried, and the cut rises to the one that loses least. In the worst case all items become the root. Nothing
is suppressed.

What it does not protect: which items go together; a private item stays as certain as it was. It does not always find
the cut that loses least.
cite: Terrovitis, Mamoulis and Kalnis 2008, Privacy-preserving anonymization of set-valued data (AA)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from pydantic import BaseModel, ConfigDict
from sqlglot import exp

from sqlanon.errors import NotReleased
from sqlanon.families import AlgorithmTraits
from sqlanon.itemsets.find_itemsets import is_of_itemsets, largest_set, require_countable
from sqlanon.itemsets.item_tree import ItemTree
from sqlanon.itemsets.open_items import basket_sizes
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems, show_labels
from sqlanon.relations.itemsets import member_joins
from sqlanon.sqltree.tree import alias, count_all, join_clause, literal, nest_query, select, table

TRAITS = AlgorithmTraits(shapes=("set",))
MOST_FETCHED = 200_000  # broken sets that are looked at before all are counted again


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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
    search = _Search(task, tree)
    for size in range(1, max(largest) + 1):
        k = max(k for k, most in zip(sizes, largest, strict=True) if most >= size)
        require_countable(basket_sizes(task.items.engine, search.table), size, models[0][0])
        search.raise_cut(size, k)
    labels: dict[int, str | None] = {item: search.cut[name] for item, name in task.items.names.items()}
    return show_labels(task, labels, f"a cut of {len(set(labels.values())):,} labels, raised {search.raised:,} times")


@dataclass
class _Search:
    """A cut through the tree, and who has which of its nodes, as a table that changes with it."""

    task: ItemTask
    tree: ItemTree
    raised: int = 0
    table: str = ""
    cut: dict[str, str] = field(default_factory=dict)  # leaf to node, of the items that occur
    numbers: dict[str, int] = field(default_factory=dict)  # of nodes
    names: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        items = self.task.items
        self.table = items.make("at_cut", select("person", "item", source=table(items.tables.items)))
        self.cut = {name: name for name in items.numbers}
        self.numbers = dict(items.numbers)
        next_number = max(self.numbers.values(), default=0) + 1
        for place, node in enumerate(sorted(self.tree.nodes - set(self.numbers)), start=next_number):
            self.numbers[node] = place
        self.names = {number: name for name, number in self.numbers.items()}
        self.occurrences = {items.names[item]: support for item, support in items.supports.items()}

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
            for node in self._chosen([self.names[number] for number in worst], k):
                gone = self._move(node)
                broken = {nodes: n for nodes, n in broken.items() if not gone & nodes}
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

    def _chosen(self, nodes: list[str], k: int) -> list[str]:
        """The nodes that the cut rises to, so that at least k persons have them all in place of the given ones."""
        paths = [[node, *self.tree.above(node)] for node in nodes]
        candidates = {self._without_contained(chosen) for chosen in product(*paths)} - {frozenset(nodes)}
        for candidate in sorted(candidates, key=lambda each: (self._loss(each), sorted(each))):
            if self._support(sorted(candidate)) >= k:
                return [node for node in sorted(candidate) if node not in nodes]
        raise NotReleased("even the root of the tree of items is had by too few persons")

    def _without_contained(self, nodes: tuple[str, ...]) -> frozenset[str]:
        return frozenset(node for node in nodes if not set(self.tree.above(node)) & set(nodes))

    def _loss(self, candidate: frozenset[str]) -> float:
        """What the cut would lose more if it rose to these nodes."""
        more = 0.0
        for node in candidate:
            for leaf in self.tree.leaves_below(node):
                if leaf in self.cut:
                    more += self.occurrences[leaf] * (self.tree.loss(node) - self.tree.loss(self.cut[leaf]))
        return round(more, 9)

    def _below(self, node: str) -> list[int]:
        """The nodes of the cut that a node covers."""
        return sorted({self.numbers[self.cut[leaf]] for leaf in self.tree.leaves_below(node) if leaf in self.cut})

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
            if leaf in self.cut:
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
