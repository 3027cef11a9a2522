"""The regions of earlier releases: cut again where they were cut, and further only where nobody is told apart.

A cut is kept by the value that it is behind, since places change with the values that occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.requirements import Stable
from sqlanon.regions.pack_places import Slot, lens, read_place
from sqlanon.regions.round_tables import Rounds
from sqlanon.regions.value_orders import Order
from sqlanon.relations.hierarchy_lookups import lookup
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    case,
    count_all,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    sum_bigint,
    table,
    text,
    union_all,
)

BIGINT, TEXT = exp.DataType.build("bigint"), exp.DataType.build("text")


@dataclass
class Replay:
    """Cut a table as earlier releases were. `kept` are the columns that a row carries from round to round.

    What it finds: `round` is the last one of earlier releases, `last` the highest region, `left_out` the rows of
    regions that fail."""

    problem: Problem
    stable: Stable
    orders: Sequence[Order]
    slots: Sequence[Slot]
    rounds: Rounds
    kept: Sequence[str]
    round: int = 0
    last: int = 1
    left_out: int = 0

    def run(self, work: str) -> str:
        highest = exp.Max(this=exp.column("right_region"))
        asked = select(exp.Max(this=exp.column("round")), highest, source=table(self.stable.cuts))
        rounds, last = self.problem.engine.query(asked)[0]
        self.round = int(rounds or 0)
        self.last = int(last or 1)
        cuts = self.rounds.made("places_of_cuts", lambda: _places(self.problem, self.orders, self.stable.cuts))
        for number in range(1, self.round + 1):
            tree = self._cut(work, cuts, number)
            after = self.rounds.made("work", partial(_given, tree))
            self.rounds.drop(work)
            work = after
        return self._without_broken(work)

    def _cut(self, work: str, cuts: str, number: int) -> exp.Select:
        now = exp.column("round", table="d").eq(number)
        same = exp.and_(exp.column("region", table="d").eq(exp.column("region", table="w")), now)
        behind = read_place(self.slots, "d") > exp.column("cut", table="d")
        goes = exp.and_(exp.column("cut", table="d").is_(exp.Null()).not_(), behind)
        region = case((goes, exp.column("right_region", table="d")), default=exp.column("region", table="w"))
        kept = [exp.column(name, table="w") for name in (*self.kept, "n")]
        known = select(exp.Star(), *lens(self.slots, exp.column("dim")), source=table(cuts))
        return select(
            *kept,
            alias(bigint(region), "region"),
            source=table(work, alias="w"),
            joins=[join_clause(nest_query(known, "d"), same, side="LEFT")],
        )

    def _without_broken(self, work: str) -> str:
        """Regions cannot be mended by those beside them: that would be another cut."""
        classes, parts = self.problem.classes_by(exp.column("region"), work)
        tree = exp.select(alias(exp.column("class_id"), "region")).from_(classes).where(exp.column("broken").neq(0))
        for name, query in parts:
            tree = tree.with_(name, as_=query, copy=False)
        broken = self.rounds.made("broken_regions", lambda: tree)
        inside = exp.column("region").isin(query=select("region", source=table(broken)))
        rows = select(sum_bigint(exp.column("n")), source=table(work), where=inside)
        self.left_out = int(self.problem.engine.query(rows)[0][0] or 0)
        if self.left_out == self.problem.records:
            raise Infeasible(None)
        kept = self.rounds.made("work", lambda: select(exp.Star(), source=table(work), where=exp.not_(inside.copy())))
        self.rounds.drop(work, broken)
        return kept


def _given(tree: exp.Query) -> exp.Query:
    return tree


def _places(problem: Problem, orders: Sequence[Order], cuts: str) -> exp.Query:
    """(round, region, dim, cut, right_region): the cuts at the places that their values have now."""
    parts: list[exp.Query] = []
    for dim, order in enumerate(orders, start=1):
        own = exp.column("attribute", table="c").eq(literal(order.domain.name))
        here = exp.column("cut", table="c")
        value = exp.column("value", table="p")
        if lookup(problem.prelude, order.domain.name, order.domain.hierarchy) is not None:
            # Every leaf is listed, also those that do not occur now.
            found = select(exp.column("at_", table="p"), source=table(order.places, alias="p"), where=value.eq(here))
        else:
            kinds = {item.name: item.type for item in problem.engine.columns(problem.prelude.rows)}
            kind = exp.DataType.build(kinds[order.domain.name], dialect=problem.engine.dialect)
            named = exp.column("n0", table="d").eq(value)
            not_behind = exp.column("original", table="d") <= exp.Cast(this=here, to=kind)
            found = select(
                exp.Max(this=exp.column("at_", table="p")),
                source=table(order.places, alias="p"),
                joins=[join_clause(table(order.domain.dictionary, alias="d"), named)],
                where=not_behind,
            )
        at = exp.Coalesce(this=found.subquery(copy=False), expressions=[literal(0)])
        parts.append(
            select(
                exp.column("round", table="c"),
                exp.column("region", table="c"),
                alias(literal(dim), "dim"),
                alias(bigint(at), "cut"),
                exp.column("right_region", table="c"),
                source=table(cuts, alias="c"),
                where=own,
            )
        )
    return union_all(parts)


def cut_values(orders: Sequence[Order], decided: str) -> exp.Query:
    """(region, attribute, cut, right_region) of the cuts of one round, by the values that they are behind."""
    parts: list[exp.Query] = []
    for dim, order in enumerate(orders, start=1):
        at = exp.column("at_", table="p").eq(exp.column("cut", table="d"))
        mine = exp.and_(exp.column("is_cut", table="d").eq(1), exp.column("dim", table="d").eq(dim))
        parts.append(
            select(
                exp.column("region", table="d"),
                alias(text(literal(order.domain.name)), "attribute"),
                alias(exp.column("value", table="p"), "cut"),
                alias(exp.column("right_", table="d"), "right_region"),
                source=table(decided, alias="d"),
                joins=[join_clause(table(order.places, alias="p"), at, side="LEFT")],
                where=mine,
            )
        )
    return union_all(parts)


def all_cuts(rounds: Sequence[str], first: int) -> exp.Query:
    """The cuts of this release, round by round; those of earlier releases are kept already."""
    names = ("region", "attribute", "cut", "right_region")
    if not rounds:
        columns, kinds = ("round", *names), (BIGINT, BIGINT, TEXT, TEXT, BIGINT)
        return rows_relation([], columns, kinds)
    return union_all(
        [
            select(alias(bigint(literal(number)), "round"), *names, source=table(name))
            for number, name in enumerate(rounds, start=first)
        ]
    )


def torn_apart(problem: Problem, stable: Stable, halves: str) -> exp.Select:
    """The regions of which a half would part those who were together so far, or newcomers, into too few of them."""
    group = exp.Coalesce(this=exp.column("group_id", table="g"), expressions=[literal(0)])
    half = exp.column("half", table="h")
    few: list[exp.Expr] = [exp.column("persons") < stable.k]
    different = []
    for number, name in enumerate(stable.attributes, start=1):
        value: exp.Expr = exp.column(problem.compressed.values[name], table="h")
        if stable.l > 1 and not problem.table.null_is_value:
            value = case((problem.known(name, "h").eq(1), value), default=exp.Null())
        values = exp.Distinct(expressions=[value])
        different.append(alias(exp.Count(this=values), f"different_{number}"))
        few.append(exp.column(f"different_{number}") < stable.l)
    sets = select(
        alias(half, "half"),
        alias(group, "group_id"),
        alias(count_all(), "persons"),
        *different,
        source=table(halves, alias="h"),
        joins=[
            join_clause(
                table(stable.groups, alias="g"),
                exp.column("original", table="g").eq(exp.column("person", table="h")),
                side="LEFT",
            )
        ],
        groups=[half.copy(), group.copy()],
    )
    region = exp.BitwiseRightShift(this=exp.column("half"), expression=literal(1))
    return select(alias(region, "region"), source=nest_query(sets, "sets"), where=exp.or_(*few)).distinct()
