"""Rows are put into groups of k or more that are alike on categories, and each shows the category in its middle.

    transformations:
      - categorical_microaggregation:
          ordered: {education: [primary, secondary, university]}
          nominal: {job: [nurse, driver, clerk]}
          k: 5

Of an `ordered` column, whose values are listed from the lowest to the highest, a group shows the median; of a `nominal`
one the value that most of its rows have, and of several the one that is listed first. The distance of two rows is that
of their places in the order, between 0 and 1, and 1 for two nominal values that differ. Groups are made as for numbers
(MDAV), block by block; `exact: true` takes all rows as one block, for tables of at most 5,000 rows. Every value of a
column must be listed. Rows with a NULL in one of the columns are refused.

With all quasi-identifiers among the columns, the release is k-anonymous by itself, without any hierarchy.

What it does not protect: other columns, and a sensitive value that all rows of a group share. A group whose rows all
have one value shows it.
cite: Torra 2004, Microaggregation for categorical variables: a median based approach; Domingo-Ferrer and Torra 2005
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator
from sqlglot import exp

from sqlanon.sqltree.draws import alias, number, plus, string, times
from sqlanon.sqltree.tree import case, column, table, text
from sqlanon.transformations import Changed, Given, Make
from sqlanon.transformations._exchange import store_rows
from sqlanon.transformations._groups import forbid_nulls, points, require_rows
from sqlanon.transformations._lookup import Label, forbid_unlisted, marginals, require_categories
from sqlanon.transformations._mdav import apply_groups, group_points, of_groups
from sqlanon.transformations._params import Base

MOST_VALUES = 100


def _listed(values: tuple[str, ...]) -> tuple[str, ...]:
    if not 2 <= len(values) <= MOST_VALUES:
        raise ValueError(f"list 2 to {MOST_VALUES} values of a column, not {len(values)}")
    if len(set(values)) < len(values):
        raise ValueError("a value is there twice; keep one")
    return values


Values = Annotated[tuple[Label, ...], AfterValidator(_listed)]


class Params(Base):
    ordered: dict[str, Values] = Field({}, description="Columns with an order, and their values from low to high.")
    nominal: dict[str, Values] = Field({}, description="Columns without an order, and their values.")
    k: int = Field(strict=True, ge=2, le=1000, description="Rows of a group, at least.")
    exact: bool = Field(False, strict=True, description="Do not cut the table into blocks first.")
    block: int = Field(300, strict=True, ge=20, le=20_000, description="Most rows of a block.")

    def apart(self) -> bool:
        return False

    def changed(self) -> tuple[str, ...]:
        return (*self.ordered, *self.nominal)

    def read(self) -> dict[str, tuple[str, ...]]:
        named = {"ordered": tuple(self.ordered), "nominal": tuple(self.nominal)}
        return {key: names for key, names in named.items() if names}

    @model_validator(mode="after")
    def _apart(self) -> Params:
        if not self.changed():
            raise ValueError("give 'ordered', 'nominal' or both")
        both = [name for name in self.ordered if name in self.nominal]
        if both:
            raise ValueError(f"'{both[0]}' is in 'ordered' and in 'nominal'; keep it in one of them")
        return self


uses_secret = False
COUNTS = True  # the number of rounds depends on the number of rows


def change(params: Params, given: Given) -> Changed:
    require_categories(given, params.changed())
    most = require_rows(given.records, params.k, params.exact, params.block)
    given, steps = store_rows(given)
    steps += forbid_nulls(given, params.changed())
    listed = {**params.ordered, **params.nominal}
    for place, (name, values) in enumerate(listed.items(), start=1):
        counts = given.name(f"counts_{place}")
        steps += [marginals(given, name, counts), forbid_unlisted(counts, values, name, "the list")]
    scores = [_rank(name, values) for name, values in params.ordered.items()]
    scores += [score for name, values in params.nominal.items() for score in _corners(name, values)]
    start, found, middle = given.name("points"), given.name("found"), given.name("middle")
    grouping, groups = group_points(given, start, len(scores), params.k, most)
    counted = [
        alias(_count(name, value), f"c{place}_{at}")
        for place, (name, values) in enumerate(listed.items())
        for at, value in enumerate(values)
    ]
    whole = alias(exp.Count(this=exp.Star()), "n")
    steps += [Make(start, points(given, scores)), *grouping]
    steps += [
        Make(found, of_groups(given, start, groups, [whole, *counted])),
        Make(middle, _middle(params, given, listed, found)),
    ]
    changes = {name: exp.column(f"a{place}", table="a") for place, name in enumerate(listed)}
    return Changed(apply_groups(given, start, groups, middle, changes), steps)


def _is(name: str, value: str) -> exp.Expr:
    return text(column(name, "t")).eq(string(value))


def _rank(name: str, values: tuple[str, ...]) -> exp.Expr:
    """The place of a value in its order, between 0 and 1."""
    steps = [(_is(name, value), number(at / (len(values) - 1))) for at, value in enumerate(values)]
    return case(*steps)


def _corners(name: str, values: tuple[str, ...]) -> list[exp.Expr]:
    """One number for each value: the squared distance of two rows is 1 where they differ."""
    return [case((_is(name, value), number(0.5**0.5)), default=number(0.0)) for value in values]


def _count(name: str, value: str) -> exp.Expr:
    return exp.Sum(this=case((_is(name, value), exp.convert(1)), default=exp.convert(0)))


def _middle(params: Params, given: Given, listed: Mapping[str, tuple[str, ...]], found: str) -> exp.Select:
    """(block, grp, a0, a1, …): the median of a column, or what is most frequent in it."""
    chosen: list[exp.Expr] = [exp.column("block"), exp.column("grp")]
    for place, (name, values) in enumerate(listed.items()):
        counts = [exp.column(f"c{place}_{at}") for at in range(len(values))]
        branches = []
        for at, value in enumerate(values):
            if name in params.ordered:
                below = plus(*(count.copy() for count in counts[: at + 1]))
                fits: exp.Expr = exp.GTE(this=times(below, exp.convert(2)), expression=exp.column("n"))
            else:
                highest = exp.Greatest(this=counts[0].copy(), expressions=[count.copy() for count in counts[1:]])
                fits = counts[at].copy().eq(highest)
            branches.append((fits, exp.Cast(this=string(value), to=given.columns[name].copy())))
        chosen.append(alias(case(*branches), f"a{place}"))
    return exp.select(*chosen).from_(table(found))
