"""Local recoding: rows become parts of classes, and each class has levels of its own.

cells(cell, value, k1, …, v1, …, person, n, f1_1, …)   the compressed table, its rows and sensitive values numbered
pieces(class_id, cell, n)                              so many rows of a cell are in a class
levels(class_id, attribute, level)                     how far a class is generalized on each quasi-identifier
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.families import plugin
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Regions, Solution
from sqlanon.relations.classes import Step
from sqlanon.relations.compressed_rows import Domain, code
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    bind,
    case,
    double,
    find_references,
    literal,
    sum_bigint,
    table,
    union_all,
    window,
)


def cells(problem: Problem) -> str:
    """The compressed table with a number for each row and for each combination of sensitive values."""

    def build() -> exp.Query:
        values = [exp.column(name) for name in problem.compressed.values.values()]
        keys = [exp.column(name) for name in problem.compressed.key_names]
        person = [exp.column("person")] if problem.compressed.person else []
        number = window(exp.RowNumber(), order=[*keys, *values, *person])
        value = window(exp.DenseRank(), order=[item.copy() for item in values]) if values else literal(1)
        return exp.select(alias(bigint(number), "cell"), alias(bigint(value), "value"), "*").from_(
            table(problem.compressed.table)
        )

    return problem.prelude.once("cells_numbered", (), build)


@dataclass
class RoundTables:
    """The tables of an algorithm that goes round by round. Each kind has two names that take turns, so that a round
    reads what the one before wrote, and the statements of a round are the same as two rounds before."""

    problem: Problem
    family: str
    turns: dict[str, int] = field(default_factory=dict)
    names: dict[tuple[str, int], str] = field(default_factory=dict)
    queries: dict[tuple[object, ...], exp.Query] = field(default_factory=dict)

    def made(self, kind: str, build: Callable[[], exp.Query], *key: object) -> str:
        """A table, in place of the last but one of its kind. `key` tells apart what `build` may give."""
        turn = self.turns[kind] = 1 - self.turns.get(kind, 1)
        known = (kind, turn, *key)
        if known not in self.queries:
            self.queries[known] = build()
        query = self.queries[known].copy()
        if (kind, turn) in self.names:
            self.problem.engine.create_temporary(self.names[kind, turn], query)
        else:
            unique = (len(self.problem.prelude.made),)
            self.names[kind, turn] = self.problem.prelude.once(f"{self.family}_{kind}", unique, lambda: query)
            self.problem.run()
        return self.names[kind, turn]

    def kept(self, kind: str, query: exp.Query) -> str:
        """A table that stays until the end."""
        unique = (len(self.problem.prelude.made),)
        name = self.problem.prelude.once(f"{self.family}_{kind}", unique, lambda: query)
        self.problem.run()
        return name

    def given(self, kind: str, columns: Sequence[str], rows: Iterable[Sequence[int]]) -> str:
        """A table of whole numbers that were found in memory; it stays until the end."""
        prelude = self.problem.prelude
        name = f"{prelude.prefix}_{self.family}_{kind}_given_{len(prelude.made)}"
        prelude.made[kind, name] = name
        listed = tuple(tuple(str(number) for number in row) for row in rows)
        prelude.steps.append(Step(name, None, tuple(columns), listed))
        return self.kept(kind, exp.select(*(alias(bigint(exp.column(own)), own) for own in columns)).from_(table(name)))

    def stated(self, kind: str, known: Mapping[str, str], name: str | None = None, **params: Any) -> str:
        """A table of the kind that a statement of `sql/recoding/` gives; it reads these tables."""
        sql = plugin("recoding", name or kind).sql
        reads = {relation: known[relation] for relation in sorted(find_references(sql))}
        key = (name, *reads.values(), *params.values())
        return self.made(kind, lambda: bind(sql, params, reads), *key)


def by_level(level: exp.Expr, choices: Mapping[int, exp.Expr]) -> exp.Expr:
    """One of several expressions, by the level that a class has; alone it needs no choice."""
    *others, last = sorted(choices)
    if not others:
        return choices[last]
    return case(*((level.copy().eq(i), choices[i]) for i in others), default=choices[last])


def key_at(problem: Problem, domain: Domain, level: int) -> exp.Expr:
    name = problem.compressed.key_names[domain.key]
    return exp.BitwiseAnd(this=exp.column(name, table="c"), expression=literal(domain.masks[level]))


def leaves_at(domain: Domain, place: int, level: int) -> exp.Expr:
    if level == 0 or level == domain.height:
        return literal(float(1 if level == 0 else domain.leaves))
    return exp.column(f"f{place}_{level}", table="c")


def nodes(problem: Problem, domain: Domain) -> str:
    """The nodes of a hierarchy that cover some row: level, code, label, leaves."""

    def build() -> exp.Query:
        parts = []
        for level in range(domain.height + 1):
            top = level == domain.height
            own = exp.BitwiseAnd(this=exp.paren(code(domain, "d")), expression=literal(domain.masks[level]))
            label = literal(domain.hierarchy.root) if top else exp.column(f"n{level}", table="d")
            leaves = exp.column(f"f{level}", table="d") if level > 0 and not top else literal(1)
            tree = exp.select(
                alias(literal(level), "level"),
                alias(bigint(own), "code"),
                alias(exp.Max(this=label), "label"),
                alias(exp.Max(this=double(literal(domain.leaves) if top else leaves)), "leaves"),
            ).from_(table(domain.dictionary, alias="d"))
            parts.append(tree.group_by(own.copy()))
        return union_all(parts)

    return problem.prelude.once("nodes", (domain.name,), build)


def label_classes(problem: Problem, pieces: str, levels: str) -> str:
    """The labels of each class and the leaves below them; classes with the same labels are one region."""

    def build() -> exp.Query:
        made = cells(problem)
        known = [nodes(problem, domain) for domain in problem.domains]
        first = exp.select("class_id", alias(exp.Min(this=exp.column("cell")), "cell")).from_(table(pieces))
        tree = exp.select("p.class_id").from_(first.group_by("class_id").subquery(alias="p"))
        tree = tree.join(table(made, alias="c"), on="c.cell = p.cell")
        shown: list[exp.Expr] = []
        for place, (domain, node) in enumerate(zip(problem.domains, known, strict=True), start=1):
            own, found = f"a{place}", f"n{place}"
            level = exp.column("level", table=own)
            same = exp.column("class_id", table=own).eq(exp.column("class_id", table="p"))
            here = exp.column("attribute", table=own).eq(place)
            tree = tree.join(table(levels, alias=own), on=exp.and_(same, here))
            masked = by_level(level, {i: key_at(problem, domain, i) for i in range(domain.height + 1)})
            at = exp.and_(exp.column("level", table=found).eq(level.copy()), exp.column("code", table=found).eq(masked))
            tree = tree.join(table(node, alias=found), on=at)
            shown.append(exp.column("label", table=found))
            tree = tree.select(
                alias(shown[-1].copy(), f"l{place}"), alias(exp.column("leaves", table=found), f"f{place}")
            )
        region = window(exp.Min(this=exp.column("class_id", table="p")), partition=shown)
        return tree.select(alias(region, "region"))

    return problem.prelude.once("labelled", (pieces, levels), build)


def verdicts(
    problem: Problem, source: str, key: exp.Expr, before: Sequence[tuple[str, exp.Query]] = (), **more: Any
) -> exp.Select:
    """The classes of a relation with their verdict: class_id, rows_, cost1, …, broken; `before` are CTEs to read."""
    name, parts = problem.classes_by(key, source, **more)
    tree = exp.select("*").from_(name)
    for part, query in [*before, *parts]:
        tree = tree.with_(part, as_=query, copy=False)
    return tree


def solution(problem: Problem, pieces: str, levels: str, why: str, checks: int) -> Solution:
    """The regions of pieces that hold their models, and what they lose; rows in no piece are suppressed."""
    made, shown = cells(problem), label_classes(problem, pieces, levels)
    split = not problem.compressed.person
    values = list(problem.compressed.values.values()) if split else []
    keys = problem.compressed.key_names

    def members() -> exp.Query:
        tree = exp.select(*(f"c.{name}" for name in [*keys, *values]), "l.region").from_(table(pieces, alias="p"))
        tree = tree.join(table(made, alias="c"), on="c.cell = p.cell")
        tree = tree.join(table(shown, alias="l"), on="l.class_id = p.class_id")
        if not split:
            return tree.distinct()
        grouped = tree.select("c.cell", alias(sum_bigint(exp.column("n", table="p")), "n"))
        grouped = grouped.group_by("c.cell", *(f"c.{name}" for name in [*keys, *values]), "l.region")
        last = bigint(
            window(exp.Sum(this=exp.column("n")), partition=[exp.column("cell")], order=[exp.column("region")])
        )
        first = exp.Add(this=exp.Sub(this=last, expression=exp.column("n")), expression=literal(1))
        inner = grouped.subquery(alias="g")
        return exp.select(*keys, *values, "region", alias(first, "first"), alias(last.copy(), "last")).from_(inner)

    def labels() -> exp.Query:
        names = [f"{letter}{i}" for letter in "lf" for i in range(1, len(problem.domains) + 1)]
        return exp.select("region", *names).from_(table(shown)).where("region = class_id")

    regions = Regions(
        problem.prelude.once("members", (pieces,), members),
        problem.prelude.once("region_labels", (pieces,), labels),
        by_value=bool(values),
        split=split,
    )
    problem.run()
    released, loss = _lost(problem, pieces, shown)
    return Solution(loss=loss, suppressed=problem.records - released, why=why, regions=regions, checks=checks)


def _lost(problem: Problem, pieces: str, shown: str) -> tuple[int, float]:
    """Rows released, and the normalized certainty penalty. Whole numbers are summed, so that their order is all one."""
    n = exp.column("n", table="p")
    leaves = [
        exp.Sum(this=exp.Mul(this=n.copy(), expression=exp.column(f"f{i}", table="l")))
        for i in range(1, len(problem.domains) + 1)
    ]
    tree = exp.select(sum_bigint(n.copy()), *leaves).from_(table(pieces, alias="p"))
    row = problem.engine.query(tree.join(table(shown, alias="l"), on="l.class_id = p.class_id"))[0]
    released = int(row[0] or 0)
    gone = problem.records - released
    weights = [problem.policy.columns[domain.name].weight for domain in problem.domains]
    total = 0.0
    for weight, domain, covered in zip(weights, problem.domains, row[1:], strict=True):
        open_leaves = float(covered or 0) - released
        own = open_leaves / (domain.leaves - 1) if domain.leaves > 1 else 0.0
        total += weight * (own + gone)
    return released, total / (sum(weights) * max(problem.records, 1))


def released_rows(problem: Problem, pieces: str, levels: str) -> str:
    """The rows as they will be released: region, v1, …, person, n. Labels may be the same on several levels, so that
    classes meet in the release: it is the regions that count."""
    shown = label_classes(problem, pieces, levels)

    def build() -> exp.Query:
        names = [*problem.compressed.values.values(), *(["person"] if problem.compressed.person else [])]
        tree = exp.select("l.region", "p.n", *(f"c.{name}" for name in names)).from_(table(pieces, alias="p"))
        tree = tree.join(table(cells(problem), alias="c"), on="c.cell = p.cell")
        return tree.join(table(shown, alias="l"), on="l.class_id = p.class_id")

    return problem.prelude.once("released_rows", (pieces, levels), build)
