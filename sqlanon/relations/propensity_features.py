"""The rows of a source and of its release as predictors of which of the two a row belongs to: trees of features.

features(side, f1, f2, …, records)      distinct combinations, f1 is 1
fitted(side, f1, f2, …, records, p)     with the probability that a row is of the release
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.relations.utility_relations import SIDE, standardize
from sqlanon.sqltree.tree import alias, case, count_all, double, literal, nest_query, select, table

STEEPEST = 30.0  # beyond that a probability is 0 or 1 in a double


@dataclass(frozen=True)
class Number:
    """A standardized number; a missing one counts as the mean."""

    place: int
    centre: float
    scale: float

    def tree(self) -> exp.Expr:
        value = standardize(exp.column(f"x{self.place}"), self.centre, self.scale)
        return exp.Coalesce(this=value, expressions=[literal(0.0)])


@dataclass(frozen=True)
class Product:
    """Of two numbers, or the square of one."""

    first: Number
    second: Number

    def tree(self) -> exp.Expr:
        return exp.Mul(this=self.first.tree(), expression=self.second.tree())


@dataclass(frozen=True)
class MissingIndicator:
    """1 where a column of numbers, or of categories, has none."""

    name: str

    def tree(self) -> exp.Expr:
        return case((exp.column(self.name).is_(exp.Null()), literal(1.0)), default=literal(0.0))


@dataclass(frozen=True)
class Category:
    """1 where a column has this label."""

    place: int
    label: str

    def tree(self) -> exp.Expr:
        own = exp.column(f"c{self.place}").eq(literal(self.label))
        return case((own, literal(1.0)), default=literal(0.0))


Feature = Number | Product | MissingIndicator | Category


def features(both: str, chosen: Sequence[Feature]) -> exp.Select:
    named = [alias(item.tree(), f"f{place}") for place, item in enumerate(chosen, start=2)]
    rows = select(SIDE, alias(literal(1.0), "f1"), *named, source=table(both))
    names = [f"f{place}" for place in range(1, len(chosen) + 2)]
    return select(SIDE, *names, alias(count_all(), "records"), source=nest_query(rows, "t"), groups=[SIDE, *names])


def step(name: str, count: int, share: float) -> exp.Select:
    """What a step of Newton's method takes, for a logistic model with the weights $1, $2, …: the logarithm of its
    likelihood, the sum of the squares by which probabilities differ from `share`, the gradient, and the upper half of
    the curvature by rows."""
    steep: exp.Expr = literal(0.0)
    for place in range(1, count + 1):
        weight = double(exp.Parameter(this=exp.Literal.number(place)))
        steep = exp.Add(this=steep, expression=exp.Mul(this=exp.column(f"f{place}"), expression=weight))
    bounded = exp.func("LEAST", exp.func("GREATEST", steep, literal(-STEEPEST)), literal(STEEPEST))
    one = exp.Add(this=literal(1.0), expression=exp.Exp(this=exp.Neg(this=bounded)))
    chance = exp.Div(this=literal(1.0), expression=exp.paren(one, copy=False))
    scored = select(exp.Star(), alias(chance, "p"), source=table(name))
    features_ = [f"f{place}" for place in range(1, count + 1)]
    rows = select(*_weighted(share), *features_, source=table("scored"))
    chosen: list[exp.Expr] = [exp.Sum(this=exp.column("likelihood")), exp.Sum(this=exp.column("square"))]
    for first in features_:
        chosen.append(exp.Sum(this=exp.Mul(this=exp.column("error"), expression=exp.column(first))))
    for place, first in enumerate(features_):
        for second in features_[place:]:
            both = exp.Mul(this=exp.column(first), expression=exp.column(second))
            chosen.append(exp.Sum(this=exp.Mul(this=exp.column("weight"), expression=both)))
    tree = select(*chosen, source=nest_query(rows, "t"))
    # Materialized: PostgreSQL would compute the probability again in each of the sums.
    return tree.with_("scored", as_=scored, materialized=True, copy=False)


def _weighted(share: float) -> list[exp.Expr]:
    """The parts of the sums that all features share."""
    p, side, records = exp.column("p"), double(exp.column(SIDE)), exp.column("records")
    rest = exp.paren(exp.Sub(this=literal(1.0), expression=p.copy()), copy=False)
    said = case((exp.column(SIDE).eq(1), p.copy()), default=rest.copy())
    apart = exp.paren(exp.Sub(this=p.copy(), expression=literal(float(share))), copy=False)
    wrong = exp.paren(exp.Sub(this=side, expression=p.copy()), copy=False)
    parts = {
        "likelihood": exp.Ln(this=said),
        "square": exp.Mul(this=apart, expression=apart.copy()),
        "error": wrong,
        "weight": exp.Mul(this=p, expression=rest),
    }
    return [alias(exp.Mul(this=records.copy(), expression=part), name) for name, part in parts.items()]


def frequent(both: str, place: int, most: int) -> exp.Select:
    """The most frequent labels of a column of categories, over both sides."""
    own = exp.column(f"c{place}")
    tree = select(own, source=table(both), where=own.copy().is_(exp.Null()).not_(), groups=[own.copy()])
    order = [exp.Ordered(this=count_all(), desc=True), exp.Ordered(this=own.copy())]
    return tree.order_by(*order, copy=False).limit(most, copy=False)


def gaps(both: str, names: Sequence[str]) -> exp.Select:
    """How many rows have no value, for each of the columns."""
    missing = [exp.Sum(this=case((exp.column(name).is_(exp.Null()), literal(1)), default=literal(0))) for name in names]
    return select(*missing, source=table(both))


def new_labels(both: str, place: int) -> exp.Select:
    """How many labels of a column the release has that the source has not."""
    own = exp.column(f"c{place}")
    ours = case((exp.column(SIDE).eq(0), literal(1)), default=literal(0))
    known = select(
        alias(exp.Max(this=ours), "known"), source=table(both), where=own.is_(exp.Null()).not_(), groups=[own.copy()]
    )
    return select(count_all(), source=nest_query(known, "t"), where=exp.column("known").eq(0))
