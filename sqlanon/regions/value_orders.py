"""The values of each quasi-identifier in a row, so that a part of them is a range from one place to another.

    places(at, value, n1, n2, …, s1, e1, f1, …)   leaves from 1 up, labels, first, last and number of leaves below these
    codes(code, at)                               from the bits of a value in a packed key to its place; NULL is at 0

A lookup is read depth-first, so that the leaves of every node lie side by side, siblings in the order in which the
hierarchy was written: numbers by size, the rows of a policy or file as they come, a table's by their text. Values
of a computed hierarchy are those that occur, in their own order.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.lattice.problem import Problem
from sqlanon.regions.pack_places import kind
from sqlanon.relations.compressed_rows import Domain, code
from sqlanon.relations.hierarchy_lookups import NUMBER, depth_first, lookup
from sqlanon.sqltree.tree import alias, bigint, case, count_all, double, literal, sum_bigint, table, window


@dataclass(frozen=True)
class Order:
    """A quasi-identifier as an ordered line of `leaves` places; `listed` where no size orders them, but a tree does."""

    domain: Domain
    places: str
    codes: str
    leaves: int
    listed: bool
    weight: float

    @property
    def step(self) -> float:
        """What one place more adds to the certainty penalty of a value."""
        return self.weight / (self.leaves - 1) if self.leaves > 1 else 0.0


def orders(problem: Problem) -> tuple[Order, ...]:
    """Make the places of all quasi-identifiers."""
    planned = [(domain, *_planned(problem, domain)) for domain in problem.domains]
    problem.run()
    found = []
    for domain, places, codes, looked_up in planned:
        weight = problem.policy.columns[domain.name].weight
        listed = looked_up and not _by_size(problem, places)
        found.append(Order(domain, places, codes, domain.leaves, listed, weight))
    return tuple(found)


def _planned(problem: Problem, domain: Domain) -> tuple[str, str, bool]:
    prelude = problem.prelude
    made = lookup(prelude, domain.name, domain.hierarchy)
    if made is None:
        relation = _present(domain)
    elif domain.hierarchy.rows:
        leaves = tuple((leaf, str(at)) for at, leaf in enumerate(depth_first(domain.hierarchy.rows), start=1))
        order = prelude.load("leaf_order", (domain.name,), ("leaf", "place"), leaves)
        relation = _looked_up(domain.hierarchy, made, order)
    else:
        relation = _sorted(domain.hierarchy, made)
    places = prelude.once("places", (domain.name,), lambda: _with_nodes(relation, domain.height))
    codes = prelude.once("codes", (domain.name,), lambda: _codes(domain, places))
    return places, codes, made is not None


def _present(domain: Domain) -> exp.Select:
    """The values that occur; they are in the dictionary in their own order."""
    at = window(exp.RowNumber(), order=[exp.column("position")])
    names = [f"n{level}" for level in range(1, domain.height)]
    known = exp.column("original").is_(exp.Null()).not_()
    return exp.select(alias(at, "at_"), alias(exp.column("n0"), "value"), *names).from_(
        exp.select("*").from_(table(domain.dictionary)).where(known).subquery(alias="present")
    )


def _labels(hierarchy: Hierarchy) -> list[exp.Expr]:
    named: list[exp.Expr] = [alias(exp.column("level_0", table="l"), "value")]
    return named + [alias(exp.column(f"level_{level}", table="l"), f"n{level}") for level in range(1, hierarchy.height)]


def _looked_up(hierarchy: Hierarchy, made: str, order: str) -> exp.Select:
    same = exp.column("leaf", table="o").eq(exp.column("level_0", table="l"))
    at = bigint(exp.column("place", table="o"))
    return (
        exp.select(alias(at, "at_"), *_labels(hierarchy))
        .from_(table(made, alias="l"))
        .join(table(order, alias="o"), on=same)
    )


def _sorted(hierarchy: Hierarchy, made: str) -> exp.Select:
    """As `depth_first`, for a lookup that only the database knows."""
    leaf = exp.column("level_0")
    is_number = exp.RegexpLike(this=leaf, expression=literal(NUMBER))
    number = case((is_number, double(leaf.copy())), default=double(exp.Null()))
    numbered = exp.select("*", alias(number, "number")).from_(table(made))
    least = [
        alias(window(exp.Min(this=exp.column("number")), partition=[exp.column(f"level_{level}")]), f"least_{level}")
        for level in range(1, hierarchy.height)
    ]
    ranked = exp.select("*", *least).from_(numbered.subquery(alias="numbered"))
    path = [
        exp.column(name)
        for level in reversed(range(1, hierarchy.height))
        for name in (f"least_{level}", f"level_{level}")
    ]
    at = window(exp.RowNumber(), order=[*path, exp.column("number"), exp.column("level_0")])
    return exp.select(alias(at, "at_"), *_labels(hierarchy)).from_(ranked.subquery(alias="l"))


def _with_nodes(relation: exp.Select, height: int) -> exp.Select:
    tree = exp.select("at_", "value", *(f"n{level}" for level in range(1, height)))
    at = exp.column("at_")
    for level in range(1, height):
        for name, function in (("s", exp.Min(this=at)), ("e", exp.Max(this=at.copy())), ("f", count_all())):
            of_node = window(function, partition=[exp.column(f"n{level}")])
            tree = tree.select(alias(bigint(of_node), f"{name}{level}"))
    return tree.from_(relation.subquery(alias="placed"))


def _codes(domain: Domain, places: str) -> exp.Select:
    unknown = exp.column("original", table="d").is_(exp.Null())
    at = exp.Cast(this=case((unknown, literal(0)), default=exp.column("at_", table="p")), to=kind(domain.leaves))
    same = exp.column("value", table="p").eq(exp.column("n0", table="d"))
    tree = exp.select(alias(code(domain, "d"), "code"), alias(at, "at_")).from_(table(domain.dictionary, alias="d"))
    return tree.join(table(places, alias="p"), on=same, join_type="left")


def _by_size(problem: Problem, places: str) -> bool:
    """Whether all leaves are numbers that grow from place to place: then a range is told by its ends."""
    value = exp.column("value")
    is_number = exp.RegexpLike(this=value, expression=literal(NUMBER))
    number = case((is_number, double(value.copy())), default=double(exp.Null()))
    before = window(exp.Lag(this=exp.column("number")), order=[exp.column("at_")])
    numbered = exp.select("at_", alias(number, "number")).from_(table(places))
    pairs = exp.select("at_", "number", alias(before, "before")).from_(numbered.subquery(alias="numbered"))
    grows = exp.or_(exp.column("at_").eq(1), exp.GT(this=exp.column("number"), expression=exp.column("before")))
    wrong = sum_bigint(
        case((exp.and_(grows, exp.column("number").is_(exp.Null()).not_()), literal(0)), default=literal(1))
    )
    return not problem.engine.query(exp.select(wrong).from_(pairs.subquery(alias="pairs")))[0][0]
