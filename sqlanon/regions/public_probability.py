"""The public probability of a record, for classes that are generalized to different levels.

The labels of each quasi-identifier are numbered by their text, so that equal labels of several levels are one node:

    shown(cell, n, v1, …, x1_0, x1_1, …)                the node of quasi-identifier 1 on level 0, 1, …
    placed(cell, step, n, v1, …, class_id, y1, …)       the nodes that are released

A label that nobody announced has the share of the released records whose labels are at or below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlglot import exp

from sqlanon.lattice.problem import Problem
from sqlanon.lattice.requirements import Requirement
from sqlanon.regions.local_recoding import RoundTables, cells, nodes
from sqlanon.relations.checks import announced_probabilities, conditional_rules
from sqlanon.relations.classes import as_label
from sqlanon.relations.compressed_rows import Domain
from sqlanon.sqltree.tree import (
    DOUBLE,
    TEXT,
    alias,
    bigint,
    case,
    double,
    literal,
    rows_relation,
    sum_bigint,
    table,
    union_all,
    window,
)

Steps = Sequence[tuple[int, ...]]


def number_nodes(problem: Problem, domain: Domain) -> str:
    """The nodes of a hierarchy with a number for each label: level, code, label, node."""

    def build() -> exp.Query:
        number = window(exp.DenseRank(), order=[exp.column("label")])
        tree = exp.select("level", "code", "label", alias(bigint(number), "node"))
        return tree.from_(table(nodes(problem, domain)))

    return problem.prelude.once("nodes_numbered", (domain.name,), build)


def number_cells(problem: Problem) -> str:
    """The cells with the number of their node on each level of each quasi-identifier."""

    def build() -> exp.Query:
        names = ["cell", *problem.compressed.values.values(), "n"]
        tree = exp.select(*(f"c.{name}" for name in names)).from_(table(cells(problem), alias="c"))
        for place, domain in enumerate(problem.domains, start=1):
            key = exp.column(problem.compressed.key_names[domain.key], table="c")
            own = exp.BitwiseAnd(this=key, expression=literal(domain.masks[0]))
            paths = table(_paths(problem, domain), alias=f"w{place}")
            tree = tree.join(paths, on=exp.column("code", table=f"w{place}").eq(own), copy=False)
            for level in range(domain.height + 1):
                node = exp.column(f"x{level}", table=f"w{place}")
                tree = tree.select(alias(node, f"x{place}_{level}"), copy=False)
        return tree

    return problem.prelude.once("cells_shown", (), build)


def _paths(problem: Problem, domain: Domain) -> str:
    """The nodes above each value: code, x0, x1, …"""

    def build() -> exp.Query:
        made = number_nodes(problem, domain)
        leaf = exp.select("code").from_(table(made)).where("level = 0").subquery(alias="leaf")
        tree = exp.select("leaf.code").from_(leaf)
        for level in range(domain.height + 1):
            name = f"n{level}"
            masked = exp.BitwiseAnd(this=exp.column("code", table="leaf"), expression=literal(domain.masks[level]))
            same = exp.and_(exp.column("level", table=name).eq(level), exp.column("code", table=name).eq(masked))
            tree = tree.join(table(made, alias=name), on=same, copy=False)
            tree = tree.select(alias(exp.column("node", table=name), f"x{level}"), copy=False)
        return tree

    return problem.prelude.once("paths", (domain.name,), build)


def class_probability(problem: Problem, item: Requirement, placed: str, steps: Steps, tables: RoundTables) -> str:
    """class_id, value, probability: the product of the probabilities of all labels and of the sensitive value."""
    public = announced_probabilities(item.params["public"]) or {}
    asked = repr(item.use)

    def shares(place: int, domain: Domain) -> exp.Query:
        if domain.name in public:
            return _announced(problem, domain, public[domain.name])
        covered = _covered(problem, domain, place, placed, steps).subquery(alias="covered")
        return exp.select("node", alias(_share(exp.column("n"), placed), "p")).from_(covered)

    made = [
        tables.made(f"shares_{place}", partial(shares, place, domain), asked, placed)
        for place, domain in enumerate(problem.domains, start=1)
    ]
    return tables.made("class_probability", lambda: _product(problem, item, public, placed, made), asked, placed, *made)


def _product(
    problem: Problem, item: Requirement, public: Mapping[str, Mapping[Any, float]], placed: str, shares: Sequence[str]
) -> exp.Select:
    assert item.attribute is not None
    value = problem.compressed.values[item.attribute]
    names = [f"y{place}" for place in range(1, len(problem.domains) + 1)]
    present = exp.select("class_id", alias(exp.column(value), "value"), *names).distinct().from_(table(placed))
    tree = exp.select("v.class_id", "v.value").from_(present.subquery(alias="v"))
    own = exp.select(alias(exp.column(value), "value"), alias(sum_bigint(exp.column("n")), "n")).from_(table(placed))
    tree = tree.join(own.group_by(value).subquery(alias="s"), on="s.value = v.value")
    product = _of_value(problem, item, public.get(item.attribute), placed)
    for place, made in enumerate(shares, start=1):
        name = f"p{place}"
        same = exp.column("node", table=name).eq(exp.column(f"y{place}", table="v"))
        tree = tree.join(table(made, alias=name), on=same, join_type="left")
        factor = exp.Coalesce(this=exp.column("p", table=name), expressions=[literal(0.0)])
        product = exp.Mul(this=exp.paren(product), expression=factor)
    return tree.select(alias(product, "probability"))


def _share(count: exp.Expr, placed: str) -> exp.Expr:
    """The part of all released rows."""
    released = exp.select(double(exp.Sum(this=exp.column("n")))).from_(table(placed)).subquery()
    return exp.Div(this=double(count), expression=released)


def _of_value(problem: Problem, item: Requirement, public: Mapping[Any, float] | None, placed: str) -> exp.Expr:
    """The probability of a sensitive value: announced, or its share; the last rule that applies overrides both."""
    ranks = dict(problem.engine.query(exp.select("label", "value").from_(table(item.relations["totals"]))))
    value = exp.column("value", table="v")
    tree: exp.Expr = _share(exp.column("n", table="s"), placed)
    if public is not None:
        known = {ranks[_text(label)]: share for label, share in public.items() if _text(label) in ranks}
        tree = literal(0.0)
        if known:
            tree = case(*((value.copy().eq(rank), literal(share)) for rank, share in known.items()), default=tree)
    for rule in conditional_rules(item.params["conditional"]):
        rank = ranks.get(_text(rule["value"]))
        conditions = [_is_node(problem, name, label) for name, label in rule["when"].items()]
        if rank is None or None in conditions:
            continue
        applies = exp.and_(value.copy().eq(rank), *conditions)
        tree = case((applies, literal(float(rule["probability"]))), default=tree)
    return tree


def _text(label: Any) -> str | None:
    return None if label is None else as_label(label)


def _is_node(problem: Problem, name: str, label: Any) -> exp.Expr | None:
    for place, domain in enumerate(problem.domains, start=1):
        if domain.name == name:
            origin = table(number_nodes(problem, domain))
            tree = exp.select("node").from_(origin).where(exp.column("label").eq(literal(as_label(label)))).limit(1)
            found = problem.engine.query(tree)
            return exp.column(f"y{place}", table="v").eq(int(found[0][0])) if found else None
    return None


def _announced(problem: Problem, domain: Domain, public: Mapping[Any, float]) -> exp.Select:
    listed = [(as_label(label), share) for label, share in public.items()]
    given = rows_relation(listed, ["label", "p"], [TEXT, DOUBLE]).subquery(alias="g")
    tree = exp.select("k.node", "g.p").distinct().from_(table(number_nodes(problem, domain), alias="k"))
    return tree.join(given, on="g.label = k.label")


def _covered(problem: Problem, domain: Domain, place: int, placed: str, steps: Steps) -> exp.Select:
    """node, n: the released records at or below each node."""
    parts = []
    for level in range(domain.height + 1):
        reached = [step for step, levels in enumerate(steps) if levels[place - 1] <= level]
        if not reached:
            continue
        node = exp.column(f"x{place}_{level}", table="c")
        tree = exp.select(alias(node, "node"), alias(exp.column("n", table="r"), "n"))
        tree = tree.from_(table(placed, alias="r")).join(table(number_cells(problem), alias="c"), on="c.cell = r.cell")
        tree = tree.where(exp.column("step", table="r").between(min(reached), max(reached)))
        if level < domain.height:
            # A label that is the same on the next level too is counted there.
            tree = tree.where(node.copy().neq(exp.column(f"x{place}_{level + 1}", table="c")))
        parts.append(tree)
    whole = union_all(parts).subquery(alias="u")
    return exp.select("node", alias(sum_bigint(exp.column("n")), "n")).from_(whole).group_by("node")
