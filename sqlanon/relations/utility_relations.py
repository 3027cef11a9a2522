"""The relations that measures of utility read: a source and its release side by side, in numbers and in labels.

    sides(side, key, x1, x2, …, c1, c2, …)              rows of the source (side 0) and of the release (side 1)
    paired(x1, y1, …, c1, d1, …, kept)                  a row of the source and what became of it; kept is 1 or 0
    number_pairs(attribute, original, released, records)   numbers of the source, and what stands in their place
    label_pairs(attribute, original, released, records)    the same for categories, as text
    numbers(attribute, side, number, records)           the numbers of either side
    spreads(attribute, deviation)                       the standard deviation of a column of the source

Attributes are numbered from 1 in the order of their columns, x and c apart, so that no statement depends on a user's
names: number 3 of the numbers is x3. Categories have the number of their column, counted on after the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.relations.classes import Prelude, finite
from sqlanon.relations.source import SUPPRESSED
from sqlanon.sqltree.tree import (
    BIGINT,
    DOUBLE,
    TEXT,
    alias,
    bigint,
    case,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    table,
    text,
    union_all,
)

SIDE, KEY = "side", "key"
SECONDS_A_DAY = 86400.0
MOST_SUMS = 900  # expressions of one statement: PostgreSQL takes up to 1664
SUMS = 9  # of a pair of columns


@dataclass(frozen=True)
class Readings:
    """Which columns are read as numbers, dates among them as days, and which as categories."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    dates: frozenset[str] = frozenset()

    def place(self, name: str) -> int:
        """The number of an attribute."""
        return (*self.numbers, *self.categories).index(name) + 1

    def name(self, place: int) -> str:
        return (*self.numbers, *self.categories)[place - 1]


def days(value: exp.Expr) -> exp.Expr:
    """A date or timestamp as days since 1970."""
    seconds = exp.Extract(this=exp.var("EPOCH"), expression=value)
    return exp.Div(this=double(seconds), expression=literal(SECONDS_A_DAY))


def sides(
    prelude: Prelude,
    source: exp.Select,
    release: exp.Select,
    readings: Readings,
    key: str | None,
    lookups: Mapping[str, str],
) -> str:
    """`lookups` are tables (label, number) for the columns whose released labels stand for numbers."""

    def build() -> exp.Query:
        return union_all([_side(0, source, readings, key, {}), _side(1, release, readings, key, lookups)])

    return prelude.once("sides", (), build)


def _side(side: int, rows: exp.Select, readings: Readings, key: str | None, lookups: Mapping[str, str]) -> exp.Select:
    chosen: list[exp.Expr] = [alias(literal(side), SIDE)]
    chosen.append(alias(bigint(column(key, "t")) if key is not None else bigint(exp.Null()), KEY))
    joins = []
    for place, name in enumerate(readings.numbers, start=1):
        own = column(name, "t")
        if name in lookups:
            short = f"l{place}"
            same = exp.column("label", table=short).eq(text(own))
            joins.append(join_clause(table(lookups[name], alias=short), same, side="LEFT"))
            number = double(exp.column("number", table=short))
        else:
            number = days(own) if name in readings.dates else finite(own)
        chosen.append(alias(number, f"x{place}"))
    for place, name in enumerate(readings.categories, start=len(readings.numbers) + 1):
        label = text(column(name, "t"))
        # A cell that is hidden is missing: as a label of its own it would be one that the source does not have.
        shown = exp.Nullif(this=label, expression=literal(SUPPRESSED)) if side else label
        chosen.append(alias(shown, f"c{place}"))
    return select(*chosen, source=nest_query(rows.copy(), "t"), joins=joins)


def distinct_labels(rows: exp.Select, name: str, most: int) -> exp.Select:
    """The labels of a released column; one more than `most` tells that there are too many."""
    label = text(column(name))
    tree = select(alias(label, "label"), source=nest_query(rows.copy(), "t"), groups=[label.copy()])
    return tree.limit(most + 1, copy=False)


def pair_rows(prelude: Prelude, both: str, readings: Readings) -> str:
    def build() -> exp.Query:
        chosen: list[exp.Expr] = []
        for place in range(1, len(readings.numbers) + 1):
            chosen += _two(f"x{place}", f"y{place}")
        for place in range(len(readings.numbers) + 1, len(readings.numbers) + len(readings.categories) + 1):
            chosen += _two(f"c{place}", f"d{place}")
        present = case((exp.column(KEY, table="r").is_(exp.Null()), literal(0)), default=literal(1))
        ours, theirs = (_only(both, side) for side in (0, 1))
        same = exp.column(KEY, table="r").eq(exp.column(KEY, table="o"))
        own = exp.column(KEY, table="o")
        return select(
            own,
            *chosen,
            alias(present, "kept"),
            source=nest_query(ours, "o"),
            joins=[join_clause(nest_query(theirs, "r"), same, side="LEFT")],
        )

    return prelude.once("paired", (), build)


def _two(name: str, released: str) -> list[exp.Expr]:
    return [alias(exp.column(name, table="o"), name), alias(exp.column(name, table="r"), released)]


def _only(both: str, side: int) -> exp.Select:
    return select(exp.Star(), source=table(both), where=exp.column(SIDE).eq(side))


def number_pairs(prelude: Prelude, pairs: str, readings: Readings) -> str:
    places = range(1, len(readings.numbers) + 1)
    return prelude.once("number_pairs", (), lambda: _pairs(pairs, places, "x", "y", DOUBLE))


def label_pairs(prelude: Prelude, pairs: str, readings: Readings) -> str:
    first = len(readings.numbers) + 1
    places = range(first, first + len(readings.categories))
    return prelude.once("label_pairs", (), lambda: _pairs(pairs, places, "c", "d", TEXT))


def _pairs(pairs: str, places: Sequence[int], ours: str, theirs: str, kind: exp.DataType) -> exp.Query:
    if not places:
        return rows_relation([], ("attribute", "original", "released", "records"), [BIGINT, kind, kind, BIGINT])
    parts: list[exp.Query] = []
    for place in places:
        names = [exp.column(f"{ours}{place}"), exp.column(f"{theirs}{place}")]
        parts.append(
            select(
                alias(bigint(literal(place)), "attribute"),
                alias(names[0], "original"),
                alias(names[1], "released"),
                alias(count_all(), "records"),
                source=table(pairs),
                groups=[item.copy() for item in names],
            )
        )
    return union_all(parts)


def numbers(prelude: Prelude, both: str, readings: Readings) -> str:
    def build() -> exp.Query:
        parts: list[exp.Query] = []
        for place in range(1, len(readings.numbers) + 1):
            own = exp.column(f"x{place}")
            parts.append(
                select(
                    alias(bigint(literal(place)), "attribute"),
                    SIDE,
                    alias(own, "number"),
                    alias(count_all(), "records"),
                    source=table(both),
                    where=own.copy().is_(exp.Null()).not_(),
                    groups=[SIDE, own.copy()],
                )
            )
        return union_all(parts)

    return prelude.once("numbers", (), build)


def spreads(prelude: Prelude, columns: Sequence[tuple[float, float, float]]) -> str:
    """`columns` are the standard deviations and ends of the columns of numbers."""
    rows = [(place, *own) for place, own in enumerate(columns, start=1)]
    names = ("attribute", "deviation", "low", "high")
    return prelude.once("spreads", (), lambda: rows_relation(rows, names, [BIGINT, DOUBLE, DOUBLE, DOUBLE]))


def count_sides(both: str) -> exp.Select:
    """The rows of either side: side, rows."""
    return select(SIDE, count_all(), source=table(both), groups=[SIDE])


def centres(both: str, count: int) -> exp.Select:
    """side, then of each column of numbers how many there are, their mean and their standard deviation."""
    chosen: list[exp.Expr] = []
    for place in range(1, count + 1):
        own = exp.column(f"x{place}")
        chosen += [
            exp.Count(this=own, big_int=True),
            exp.Avg(this=own.copy()),
            exp.StddevSamp(this=own.copy()),
            exp.Min(this=own.copy()),
            exp.Max(this=own.copy()),
        ]
    return select(SIDE, *chosen, source=table(both), groups=[SIDE])


def products(
    both: str, pairs: Sequence[tuple[int, int]], centre: Sequence[float], scale: Sequence[float]
) -> list[exp.Select]:
    """For each side, of each pair of columns SUMS sums over the rows that have both numbers, which are standardized:
    their count, u, v, u·v, u², v², u²·v², u³·v and u·v³."""
    size = MOST_SUMS // SUMS
    return [_products(both, pairs[start : start + size], centre, scale) for start in range(0, len(pairs), size)]


def _products(
    both: str, pairs: Sequence[tuple[int, int]], centre: Sequence[float], scale: Sequence[float]
) -> exp.Select:
    places = sorted({place for pair in pairs for place in pair})
    inner = [
        alias(standardize(exp.column(f"x{place}"), centre[place - 1], scale[place - 1]), f"u{place}")
        for place in places
    ]
    chosen: list[exp.Expr] = []
    for first, second in pairs:
        u, v = exp.column(f"u{first}"), exp.column(f"u{second}")
        chosen.append(exp.Count(this=_product(u, v), big_int=True))
        chosen += [exp.Sum(this=_where(u, v)), exp.Sum(this=_where(v, u))]
        chosen += [exp.Sum(this=_product(*parts)) for parts in ((u, v),)]
        chosen += [exp.Sum(this=_where(_product(u, u), v)), exp.Sum(this=_where(_product(v, v), u))]
        chosen += [exp.Sum(this=_product(*parts)) for parts in ((u, u, v, v), (u, u, u, v), (u, v, v, v))]
    rows = select(SIDE, *inner, source=table(both))
    return select(SIDE, *chosen, source=nest_query(rows, "standardized"), groups=[SIDE])


def standardize(value: exp.Expr, centre: float, scale: float) -> exp.Expr:
    moved = exp.paren(exp.Sub(this=value, expression=literal(float(centre))), copy=False)
    return exp.paren(exp.Div(this=moved, expression=literal(float(scale))), copy=False)


def _product(*parts: exp.Expr) -> exp.Expr:
    tree = parts[0].copy()
    for part in parts[1:]:
        tree = exp.Mul(this=tree, expression=part.copy())
    return tree


def _where(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    """A value in rows that have the other one too."""
    return case((other.copy().is_(exp.Null()).not_(), value.copy()), default=exp.Null())


def misses(pairs: str, places: Sequence[int], widths: Sequence[float]) -> exp.Select:
    """How many rows of the release have so many original numbers outside of an interval around the released ones:
    outside, cells that could be compared, rows."""
    outside: exp.Expr = literal(0)
    known: exp.Expr = literal(0)
    for place, width in zip(places, widths, strict=True):
        x, y = exp.column(f"x{place}"), exp.column(f"y{place}")
        apart = exp.Abs(this=exp.Sub(this=x, expression=y))
        far = case((apart > literal(float(width)), literal(1)), default=literal(0))
        both = exp.and_(x.copy().is_(exp.Null()).not_(), y.copy().is_(exp.Null()).not_())
        outside = exp.Add(this=outside, expression=far)
        known = exp.Add(this=known, expression=case((both, literal(1)), default=literal(0)))
    rows = select(alias(outside, "outside"), alias(known, "known"), source=table(pairs), where=exp.column("kept").eq(1))
    return select("outside", "known", count_all(), source=nest_query(rows, "compared"), groups=["outside", "known"])
