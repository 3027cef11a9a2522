"""Cuts through the trees of the quasi-identifiers, as rows of a table that a search moves up or down.

A cut is a set of nodes of a tree, none above another, that covers each value: the label of a value is the node above
it. The table holds the compressed one with, for each row, its class (g1, …: the keys with what the cuts hide set to 0)
and for each quasi-identifier the level of its node (level1, …) and the mask of where that node may go next (next1, …;
NULL where it may not). As no node of a cut is above another, bits and hidden zeros never mean two different nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.lattice.class_queries import with_parts
from sqlanon.lattice.hierarchy_trees import Forest, TreeNode
from sqlanon.lattice.model_classes import join_keys
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Regions
from sqlanon.relations.compressed_rows import BITS, Domain, code
from sqlanon.sqltree.tree import BIGINT, alias, bigint, case, double, literal, sum_bigint, table, union_all, window

EVERY_BIT = (1 << BITS) - 1


@dataclass(frozen=True)
class CutSizes:
    """Of some classes: the size of the smallest, the rows in all, and those in classes that break a model."""

    smallest: int
    rows: int
    broken: int


@dataclass
class Cuts:
    problem: Problem
    forest: Forest
    downwards: bool  # from the roots down, else from the values up
    table: str = field(init=False)
    cut: list[dict[int, TreeNode]] = field(init=False)  # for each attribute the nodes of its cut, by their codes
    moves: list[dict[int, TreeNode]] = field(init=False)  # nodes that may be split, or made of their children
    _statements: dict[tuple[int, ...], Callable[[Sequence[int | float]], list[tuple[Any, ...]]]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        domains = self.problem.domains
        at = [domain.height if self.downwards else 0 for domain in domains]
        near = [domain.height if self.downwards else 1 for domain in domains]
        every = list(self.forest.nodes)
        self.cut = [
            {node.code: node for node in every if (node.attribute, node.level) == (i, level)}
            for i, level in enumerate(at)
        ]
        self.moves = [
            {node.code: node for node in every if (node.attribute, node.level) == (i, level)}
            for i, level in enumerate(near)
        ]
        # Each search needs a table of its own, also where one problem is searched twice.
        self.table = self.problem.prelude.once("cuts", (len(self.problem.prelude.steps),), self._start)
        self.problem.run()

    def _start(self) -> exp.Query:
        compressed = self.problem.compressed
        kept = [*compressed.key_names, *compressed.values.values(), *(["person"] if compressed.person else []), "n"]
        tree = exp.select(*kept).from_(table(compressed.table))
        for number, name in enumerate(compressed.key_names, start=1):
            start: exp.Expr = bigint(literal(0)) if self.downwards else exp.column(name)
            tree = tree.select(alias(start, f"g{number}"))
        for i, domain in enumerate(self.problem.domains, start=1):
            level = domain.height if self.downwards else 0
            following = domain.masks[domain.height - 1 if self.downwards else 1]
            tree = tree.select(
                alias(bigint(literal(level)), f"level{i}"), alias(bigint(literal(following)), f"next{i}")
            )
        return tree

    # Names of columns ---------------------------------------------------------------------------------------------

    def _classes_columns(self) -> list[exp.Expr]:
        return [exp.column(f"g{number}") for number in range(1, self.problem.compressed.keys + 1)]

    def _own(self, domain: Domain) -> exp.Expr:
        """The code of a row's node in the cut."""
        return _and(exp.column(f"g{domain.key + 1}"), domain.masks[0])

    def _key(self, domain: Domain) -> exp.Expr:
        return exp.column(self.problem.compressed.key_names[domain.key])

    # Measuring ----------------------------------------------------------------------------------------------------

    def now(self) -> list[dict[int, CutSizes]]:
        """For each attribute and node of its cut the classes with that node."""
        return self._ask((), self._now)

    def after(self) -> list[dict[int, CutSizes]]:
        """For each attribute and move the classes that the move makes. The rows of two moves of an attribute are never
        the same, so that one GROUP BY measures all of them."""
        attributes = tuple(attribute for attribute, moves in enumerate(self.moves) if moves)
        if not attributes:
            return [{} for _ in self.moves]
        return self._ask(attributes, lambda: union_all([self._after(attribute) for attribute in attributes]))

    def _now(self) -> exp.Query:
        kept = [alias(exp.Max(this=column), column.name) for column in self._classes_columns()]
        classes, parts = self.problem.classes_by(join_keys(self._classes_columns()), self.table, also=kept)
        branches = [
            _sizes(attribute, self._own(domain), classes) for attribute, domain in enumerate(self.problem.domains)
        ]
        tree = exp.select("*").from_(union_all(branches).subquery(alias="sizes"))
        return with_parts(tree, parts)

    def _after(self, attribute: int) -> exp.Select:
        domain, following = self.problem.domains[attribute], exp.column(f"next{attribute + 1}")
        moved = exp.BitwiseAnd(this=self._key(domain), expression=following)
        columns = self._classes_columns()
        columns[domain.key] = _or(_and(columns[domain.key], EVERY_BIT & ~domain.masks[0]), moved)
        node = self._own(domain) if self.downwards else moved.copy()
        open_rows = exp.select("*").from_(table(self.table)).where(following.copy().is_(exp.Null()).not_())
        classes, parts = self.problem.classes_by(
            join_keys(columns), "open_rows", also=[alias(exp.Max(this=node), "node")]
        )
        tree = with_parts(_sizes(attribute, exp.column("node"), classes), [("open_rows", open_rows), *parts])
        return exp.select("*").from_(tree.subquery(alias=f"after_{attribute}"))

    def _ask(self, attributes: tuple[int, ...], build: Callable[[], exp.Query]) -> list[dict[int, CutSizes]]:
        # Each step asks the same statements: to write them anew would take as long as to run them.
        if attributes not in self._statements:
            self._statements[attributes] = self.problem.engine.prepared(build())
        found: list[dict[int, CutSizes]] = [{} for _ in self.problem.domains]
        for attribute, node, *sizes in self._statements[attributes](()):
            found[attribute][int(node)] = CutSizes(*(int(size) for size in sizes))
        return found

    # Moving -------------------------------------------------------------------------------------------------------

    def specialize(self, node: TreeNode) -> None:
        """Put the children of a node in its place."""
        level = node.level - 1
        domain = self.problem.domains[node.attribute]
        self._move(node, level, domain.masks[level - 1] if level else None)
        children = {child.code: child for child in self.forest.children[node]}
        del self.cut[node.attribute][node.code], self.moves[node.attribute][node.code]
        self.cut[node.attribute].update(children)
        if level:
            self.moves[node.attribute].update(children)

    def generalize(self, node: TreeNode) -> None:
        """Put a node in the place of its children."""
        attribute = node.attribute
        self._move(node, node.level, None)
        for child in self.forest.children[node]:
            del self.cut[attribute][child.code]
        self.cut[attribute][node.code] = node
        del self.moves[attribute][node.code]
        domain = self.problem.domains[attribute]
        if node.level == domain.height:
            return
        parent = self.forest.parent(node)
        if all(self.cut[attribute].get(child.code) == child for child in self.forest.children[parent]):
            self.moves[attribute][parent.code] = parent
            self._update({f"next{attribute + 1}": literal(domain.masks[parent.level])}, self._below(parent))

    def close(self, nodes: Iterable[TreeNode]) -> None:
        """Measure these nodes of the cut no more."""
        listed = list(nodes)
        for attribute in sorted({node.attribute for node in listed}):
            codes = [node.code for node in listed if node.attribute == attribute]
            for own in codes:
                del self.moves[attribute][own]
            where = exp.paren(self._own(self.problem.domains[attribute])).isin(*(literal(own) for own in codes))
            self._update({f"next{attribute + 1}": _nothing()}, where)

    def take_out_broken(self) -> None:
        """Suppress the classes that break a model, for good."""
        classes, parts = self.problem.classes_by(join_keys(self._classes_columns()), self.table)
        listed = exp.select("class_id").from_(classes).where(exp.column("broken").eq(1))
        where = exp.In(this=join_keys(self._classes_columns()), query=with_parts(listed, parts).subquery())
        self.problem.engine.execute(exp.Delete(this=table(self.table), where=exp.Where(this=where)))

    def turn_down(self) -> None:
        """After moves upwards: each node of the cuts may be split from here on."""
        self.downwards = True
        self._statements.clear()
        for attribute, domain in enumerate(self.problem.domains):
            name = f"level{attribute + 1}"
            below = [
                (exp.column(name).eq(level), literal(domain.masks[level - 1])) for level in range(1, domain.height + 1)
            ]
            self._update({f"next{attribute + 1}": case(*below, default=_nothing())}, exp.true())
            self.moves[attribute] = {own: node for own, node in self.cut[attribute].items() if node.level}

    def to_roots(self) -> None:
        """Hide all that can be hidden."""
        for attribute, domain in enumerate(self.problem.domains):
            root = self.forest.root(attribute)
            self._move(root, domain.height, None)
            self.cut[attribute], self.moves[attribute] = {root.code: root}, {}

    def _move(self, node: TreeNode, level: int, following: int | None) -> None:
        domain = self.problem.domains[node.attribute]
        group = f"g{domain.key + 1}"
        rest = _and(exp.column(group), EVERY_BIT & ~domain.masks[0])
        changes = {
            group: _or(rest, _and(self._key(domain), domain.masks[level])),
            f"level{node.attribute + 1}": literal(level),
            f"next{node.attribute + 1}": _nothing() if following is None else literal(following),
        }
        self._update(changes, self._below(node))

    def _below(self, node: TreeNode) -> exp.Expr:
        domain = self.problem.domains[node.attribute]
        return exp.paren(_and(self._key(domain), domain.masks[node.level])).eq(literal(node.code))

    def _update(self, changes: dict[str, exp.Expr], where: exp.Expr) -> None:
        pairs = [exp.EQ(this=exp.column(name), expression=value) for name, value in changes.items()]
        self.problem.engine.execute(exp.Update(this=table(self.table), expressions=pairs, where=exp.Where(this=where)))

    # The result ---------------------------------------------------------------------------------------------------

    def loss(self, now: Sequence[dict[int, CutSizes]]) -> float:
        """The normalized certainty penalty of the cut, with the classes that break a model suppressed."""
        costs = [
            (sizes.rows - sizes.broken) * self.forest.ncp(self.cut[attribute][own])
            for attribute, nodes in enumerate(now)
            for own, sizes in sorted(nodes.items())
        ]
        return (math.fsum(costs) + self.suppressed(now)) / max(self.problem.records, 1)

    def suppressed(self, now: Sequence[dict[int, CutSizes]]) -> int:
        """The rows that are not released: those that were taken out, and those in classes that break a model."""
        return self.problem.records - sum(sizes.rows - sizes.broken for sizes in now[0].values())

    def regions(self) -> Regions:
        """Each class that holds is a region."""
        prelude, domains = self.problem.prelude, self.problem.domains
        columns = self._classes_columns()
        kept = [alias(exp.Max(this=column.copy()), column.name) for column in columns]
        for i, domain in enumerate(domains, start=1):
            leaf = _and(self._key(domain), domain.masks[0])
            kept.append(alias(exp.Max(this=exp.column(f"level{i}")), f"level{i}"))
            kept.append(alias(exp.Min(this=leaf), f"leaf{i}"))  # any: all have the same node above them
        classes, parts = self.problem.classes_by(join_keys(columns), self.table, also=kept)
        number = bigint(window(exp.RowNumber(), order=[column.copy() for column in columns]))
        tree = exp.select("*", alias(number, "region")).from_(classes).where(exp.column("broken").eq(0))
        held = prelude.once("regions", (self.table,), lambda: with_parts(tree, parts))
        members = prelude.once("members", (self.table,), lambda: self._members(held))
        labels = prelude.once("labels", (self.table,), lambda: _labels(held, domains))
        self.problem.run()
        return Regions(members, labels)

    def _members(self, held: str) -> exp.Query:
        keys = [exp.column(name, table="c") for name in self.problem.compressed.key_names]
        names = [column.name for column in self._classes_columns()]
        same = exp.and_(*(exp.column(name, table="c").eq(exp.column(name, table="h")) for name in names))
        tree = exp.select(*keys, "h.region").distinct().from_(table(self.table, alias="c"))
        return tree.join(table(held, alias="h"), on=same)


def smallest(sizes: Iterable[CutSizes]) -> int | None:
    return min((item.smallest for item in sizes), default=None)


def _sizes(attribute: int, node: exp.Expr, classes: str) -> exp.Select:
    rows = case((exp.column("broken").eq(1), exp.column("rows_")), default=literal(0))
    tree = exp.select(
        alias(literal(attribute), "attribute"),
        alias(node, "node"),
        alias(exp.Min(this=exp.column("records")), "smallest"),
        alias(sum_bigint(exp.column("rows_")), "rows_"),
        alias(sum_bigint(rows), "broken"),
    ).from_(classes)
    return tree.group_by(node.copy())


def _labels(held: str, domains: Sequence[Domain]) -> exp.Query:
    tree = exp.select("h.region").from_(table(held, alias="h"))
    leaves = []
    for i, domain in enumerate(domains, start=1):
        name = f"d{i}"
        level = exp.column(f"level{i}", table="h")
        tree = tree.join(table(domain.dictionary, alias=name), on=code(domain, name).eq(exp.column(f"leaf{i}", "h")))
        below = range(domain.height)
        named = [(level.copy().eq(own), exp.column(f"n{own}", table=name)) for own in below]
        counted = [(level.copy().eq(own), exp.column(f"f{own}", table=name) if own else literal(1.0)) for own in below]
        tree = tree.select(alias(case(*named, default=literal(domain.hierarchy.root)), f"l{i}"))
        leaves.append(alias(double(case(*counted, default=literal(float(domain.leaves)))), f"f{i}"))
    return tree.select(*leaves)


def _and(value: exp.Expr, mask: int) -> exp.Expr:
    return exp.BitwiseAnd(this=value, expression=literal(mask))


def _or(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    # Engines differ in which of & and | binds more tightly.
    return exp.BitwiseOr(this=exp.paren(one), expression=exp.paren(other))


def _nothing() -> exp.Expr:
    return exp.Cast(this=exp.Null(), to=BIGINT.copy())
