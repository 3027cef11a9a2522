"""The statements of exact answers: every group is judged by the controls, in the database.

    rows    unit, keys, for each query set whether the row is in it (n0…), and the integers to sum (x0…)
    cells   the same, added up by person and key
    people  the persons that could be in a query set: those with a row in every private table that is read
    placed  cells with the persons of a group in the order of what they add (r_x0…)
    judged  placed with `ok`: whether the controls let the group out

The size rule is m <= |C| and m <= |people \\ C|, for every query set C of the group. Where x1 >= x2 >= … are what the
persons of a group add to a sum, by size: (n, k)-dominance wants x1 + … + xn < k (x1 + x2 + …), and the p% rule
x3 + x4 + … >= p/100 x1. COUNT(*) is such a sum where persons may have several rows. All of it is integers; k and p
are rounded to the strict side at the sixth digit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.core import Core, key_tree
from sqlanon.gateway.bind.exact_aggregates import AggregateRequest, Measure
from sqlanon.gateway.bind.row_copies import private_tables
from sqlanon.gateway.bind.values import UNIT, number
from sqlanon.policy.gateway import Controls

JUDGED = "sqlanon_judged"
SCALE = 10**6
ZERO, ONE = number(0), number(1)


@dataclass(frozen=True)
class Judge:
    """The controls of a policy, for one core."""

    core: Core
    asked: AggregateRequest
    controls: Controls
    people: exp.Query
    least: int  # persons of a group

    @property
    def keys(self) -> list[str]:
        return [f"k{place}" for place in range(len(self.core.keys))]

    def relation(self) -> exp.Select:
        """The rows that are grouped: equal text is equal rows, as long as the data stay."""
        select = self.core.rows.copy().select(exp.alias_(self.core.unit.copy(), UNIT), copy=False)
        for name, key in zip(self.keys, self.core.keys, strict=True):
            select = select.select(exp.alias_(key_tree(key), name), copy=False)
        return select

    def answer(self) -> exp.Select:
        """Keys, ok, groups, and the measures: a row for each group that is let out, and one for all others."""
        shown = exp.Select().from_(JUDGED)
        for key in self.keys:
            shown = shown.select(exp.alias_(_case(_is("ok"), exp.column(key)), key), copy=False)
        shown = shown.select("ok", "place", *self._columns(), copy=False)
        final = exp.Select().select(*self.keys, "ok").from_(_aliased(shown, "shown")).group_by(*self.keys, "ok")
        final = final.select(exp.alias_(_sum(_flag(_is("place"))), "groups"), copy=False)
        for place, measure in enumerate(self.asked.measures):
            tree = _case(_is("ok"), self._measured(measure), ZERO)
            final = final.select(exp.alias_(_sum(tree), f"a{place}"), copy=False)
        return self.ending(final)

    def listing(self) -> exp.Select:
        """Every group with what decides about it: keys, ok, persons, one of them, the rows of each query set, the
        measures, and of each magnitude its whole, its largest part, what is beyond the two largest, and the first n."""
        final = exp.Select().select(*self.keys).from_(JUDGED)
        final = final.select("MIN(ok) AS ok", "COUNT(*) AS persons", copy=False)
        final = final.select(exp.alias_(exp.Min(this=exp.cast(exp.column(UNIT), "text")), "lone"), copy=False)
        for place in range(len(self.asked.sets)):
            final = final.select(exp.alias_(_sum(exp.column(f"n{place}")), f"s{place}"), copy=False)
        for place, measure in enumerate(self.asked.measures):
            final = final.select(exp.alias_(_sum(self._measured(measure)), f"a{place}"), copy=False)
        for name in self._magnitudes():
            size, rank = exp.Abs(this=exp.column(name)), exp.column(f"r_{name}")
            first = self.controls.dominance.n if self.controls.dominance is not None else 1
            for label, test in (
                ("t", None),
                ("f", exp.EQ(this=rank, expression=ONE.copy())),
                ("b", exp.GT(this=rank.copy(), expression=number(2))),
                ("n", exp.LTE(this=rank.copy(), expression=number(first))),
            ):
                tree = size.copy() if test is None else _case(test, size.copy(), ZERO)
                final = final.select(exp.alias_(_sum(tree), f"{label}_{name}"), copy=False)
        if self.keys:
            order = exp.Order(expressions=[exp.column(key) for key in self.keys])
            rank_of = exp.Window(this=exp.DenseRank(), order=order, over="OVER")
            final = final.select(exp.alias_(rank_of, "place_"), copy=False).group_by(*self.keys, copy=False)
        return self.ending(final)

    def _measured(self, measure: Measure) -> exp.Expr:
        if measure.kind == "sum":
            return exp.column(f"x{measure.value}")
        return exp.column(f"n{measure.present}") if measure.kind == "rows" else _flag(_some(f"n{measure.present}"))

    @property
    def magnitudes(self) -> list[str]:
        return self._magnitudes()

    def held(self, present: int) -> exp.Select:
        """The persons of a query set by key, each with their rows in it, and whether their group is let out."""
        final = exp.Select().select(UNIT, *self.keys, exp.alias_(exp.column(f"n{present}"), "n"), "ok").from_(JUDGED)
        return self.ending(final.where(_some(f"n{present}")))

    def ending(self, final: exp.Select, added: Mapping[str, exp.Expr] | None = None) -> exp.Select:
        """A statement over the judged cells; `added` are more integers that are summed up with the rows."""
        extra = added or {}
        for name, query in (
            ("sqlanon_rows", self._rows(extra)),
            ("sqlanon_cells", self._cells(list(extra))),
            ("sqlanon_people", self.people.copy()),
            ("sqlanon_placed", self._placed()),
            (JUDGED, self._judged()),
        ):
            final = final.with_(name, as_=query, copy=False)
        return final

    def _columns(self) -> list[str]:
        sets = [f"n{place}" for place in range(len(self.asked.sets))]
        return [*sets, *(f"x{place}" for place in range(len(self.asked.values)))]

    def _rows(self, added: Mapping[str, exp.Expr]) -> exp.Select:
        select = self.relation()
        for place, holds in enumerate(self.asked.sets):
            select = select.select(exp.alias_(_flag(holds.copy()), f"n{place}"), copy=False)
        for place, (_, tree) in enumerate(self.asked.values):
            select = select.select(exp.alias_(tree.copy(), f"x{place}"), copy=False)
        for name, tree in added.items():
            select = select.select(exp.alias_(tree.copy(), name), copy=False)
        return select

    def _cells(self, added: Sequence[str]) -> exp.Select:
        by = [UNIT, *self.keys]
        sums = [exp.alias_(_sum(exp.column(name)), name) for name in [*self._columns(), *added]]
        return exp.Select().select(*by, *sums).from_("sqlanon_rows").group_by(*by)

    def _placed(self) -> exp.Select:
        inside = exp.Not(this=exp.Is(this=exp.column("person", table="u"), expression=exp.Null()))
        order: dict[str, list[exp.Expr]] = {"place": [exp.column(UNIT)]}
        for name in self._magnitudes():
            size = exp.Ordered(this=exp.Abs(this=exp.column(name)), desc=True)
            order[f"r_{name}"] = [size, exp.column(UNIT)]
        ranks = [exp.alias_(self._over(exp.RowNumber(), trees), name) for name, trees in order.items()]
        select = exp.Select().select("c.*", exp.alias_(_flag(inside), "inside"), *ranks)
        same = exp.EQ(this=exp.column(UNIT, table="c"), expression=exp.column("person", table="u"))
        return select.from_("sqlanon_cells AS c").join("sqlanon_people AS u", on=same, join_type="LEFT")

    def _judged(self) -> exp.Select:
        tests: list[exp.Expr] = []
        everybody = exp.Select().select(exp.Count(this=exp.Star())).from_("sqlanon_people").subquery()
        for place in range(len(self.asked.sets)):
            there = _some(f"n{place}")
            tests.append(exp.GTE(this=self._total(_flag(there)), expression=number(self.least)))
            inside = self._total(_flag(exp.and_(there.copy(), _is("inside"))))
            rest = exp.Sub(this=everybody.copy(), expression=inside)
            tests.append(exp.GTE(this=rest, expression=number(self.controls.query_set_size)))
        for name in self._magnitudes():
            tests += self._concentration(name)
        judged = exp.alias_(_flag(exp.and_(*tests) if tests else exp.Boolean(this=True)), "ok")
        return exp.Select().select("*", judged).from_("sqlanon_placed")

    def _magnitudes(self) -> list[str]:
        """What persons add different amounts to; rows too, unless each has one."""
        if self.controls.dominance is None and self.controls.p_percent is None:
            return []
        counted = {measure.present for measure in self.asked.measures if measure.kind == "rows"}
        rows = [] if self.core.unique else [f"n{place}" for place in sorted(counted)]
        return [*(f"x{place}" for place in range(len(self.asked.values))), *rows]

    def _concentration(self, name: str) -> list[exp.Expr]:
        size: exp.Expr = exp.Abs(this=exp.column(name))

        def among(low: int, high: int | None) -> exp.Expr:
            rank = exp.column(f"r_{name}")
            test: exp.Expr = exp.GTE(this=rank, expression=number(low))
            if high is not None:
                test = exp.and_(test, exp.LTE(this=rank.copy(), expression=number(high)))
            return self._total(_case(test, size.copy(), ZERO))

        tests: list[exp.Expr] = []
        if self.controls.dominance is not None:
            share = math.floor(round(self.controls.dominance.k * SCALE, 3))
            top, whole = _times(among(1, self.controls.dominance.n), SCALE), _times(among(1, None), share)
            tests.append(exp.LT(this=top, expression=whole))
        if self.controls.p_percent is not None:
            percent = math.ceil(round(self.controls.p_percent * SCALE, 3))
            rest, first = _times(among(3, None), 100 * SCALE), _times(among(1, 1), percent)
            tests.append(exp.GTE(this=rest, expression=first))
        return tests

    def _over(self, function: exp.Expr, order: Sequence[exp.Expr] = ()) -> exp.Expr:
        by = [exp.column(key) for key in self.keys]
        ordered = exp.Order(expressions=list(order)) if order else None
        return exp.Window(this=function, partition_by=by, order=ordered, over="OVER")

    def _total(self, tree: exp.Expr) -> exp.Expr:
        """Of the group."""
        return self._over(_sum(tree))


def people(catalog: Catalog, core: Core) -> exp.Query:
    """Those with a row in every private table that a core reads.

    Not those of the unit's table: persons without a row in what is read hide nobody in a complement.
    """
    made: exp.Query | None = None
    for name in private_tables(catalog, core.rows):
        relation = catalog.base(name).tree
        assert isinstance(relation, exp.Query)
        person = exp.alias_(exp.column(UNIT, quoted=True), "person")
        select = exp.Select(distinct=exp.Distinct()).select(person).from_(_aliased(relation, "t"))
        made = select if made is None else exp.Intersect(this=made, expression=select, distinct=True)
    assert made is not None
    return made


def _aliased(query: exp.Query, name: str) -> exp.Expr:
    return exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(name)))


def _case(test: exp.Expr, tree: exp.Expr, other: exp.Expr | None = None) -> exp.Expr:
    made = exp.Case().when(test, tree, copy=False)
    return made.else_(other.copy(), copy=False) if other is not None else made


def _flag(test: exp.Expr) -> exp.Expr:
    return _case(test, ONE.copy(), ZERO)


def _is(name: str) -> exp.Expr:
    return exp.EQ(this=exp.column(name), expression=ONE.copy())


def _some(name: str) -> exp.Expr:
    return exp.GT(this=exp.column(name), expression=ZERO.copy())


def _sum(tree: exp.Expr) -> exp.Expr:
    return exp.Sum(this=tree)


def _times(tree: exp.Expr, factor: int) -> exp.Expr:
    return exp.Mul(this=tree, expression=number(factor))
