"""A part of the rows is drawn; the others are left out.

    transformations:
      - sampling: {share: 0.1}
      - sampling: {share: 0.1, exact: true, strata: [region]}

Each row is drawn by itself with the probability `share`; with a person column each person, with all rows. With `exact`
the share of the rows (of each stratum) is drawn to the nearest row, without replacement. The draw is the same in every
release, whatever its share: a smaller sample is a part of a larger one, so that several releases tell no more than the
largest, and do not add up to everybody.

What it does not protect: those who were drawn. It does not hinder an attacker who knows that a person is in the sample.
Rows that are left out do not count as suppressed, and what a model compares a class with is the sample.
cite: Cochran 1977, Sampling Techniques; Willenborg and de Waal 2001
"""

from __future__ import annotations

from pydantic import Field, model_validator
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.sqltree.draws import canonical, cross_join, digest, nest_copy, number, plus, seed_row, times, uniform
from sqlanon.sqltree.tree import bigint, column, double
from sqlanon.transformations import KEY, Changed, Given
from sqlanon.transformations._params import Base, Names, Share
from sqlanon.transformations._rows import select_rows

DRAW = "\u2205 draw"
PLACE = "\u2205 place"
WHOLE = "\u2205 whole"


class Params(Base):
    share: Share = Field(description="Part of the rows that is drawn, between 0 and 1.")
    exact: bool = Field(False, strict=True, description="Draw so many rows, and not each by itself.")
    strata: Names = Field((), description="With 'exact', the share is drawn of each combination of their values.")

    def read(self) -> dict[str, tuple[str, ...]]:
        return {"strata": self.strata} if self.strata else {}

    @model_validator(mode="after")
    def _strata_are_exact(self) -> Params:
        if self.strata and not self.exact:
            raise ValueError("'strata' need 'exact: true': drawn one by one, rows come in the same share anyway")
        return self


uses_secret = True
CHANGES_ROWS = True
SHARED_DRAWS = True  # at all shares: samples that were drawn anew would show more persons, one beside the other


def change(params: Params, given: Given) -> Changed:
    if params.exact and given.person is not None:
        raise PolicyError(
            "an exact sample draws rows, but the policy counts persons",
            hint="leave 'exact' out: persons are drawn then",
        )
    label = given.seed("rows")
    identity: exp.Expr = column(KEY, "r")
    if given.person is not None:
        identity = canonical(given.person, given.columns[given.person], "r")
    inner = cross_join(
        exp.select(
            "r.*", exp.alias_(uniform(given.dialect, digest(given.dialect, "s", identity)), DRAW, quoted=True)
        ).from_(nest_copy(given.rows, "r")),
        seed_row(given.seeds, label, "s"),
    )
    if not params.exact:
        tree = select_rows(given, {}, inner.subquery(alias="t"))
        return Changed(tree.where(exp.LT(this=column(DRAW, "t"), expression=number(params.share))), seeds=[label])
    groups = [column(name) for name in params.strata]
    order = exp.Order(expressions=[exp.Ordered(this=column(DRAW)), exp.Ordered(this=column(KEY))])
    place = exp.Window(this=exp.RowNumber(), partition_by=groups or None, order=order)
    whole = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[item.copy() for item in groups] or None)
    placed = exp.select("*", exp.alias_(place, PLACE, quoted=True), exp.alias_(whole, WHOLE, quoted=True)).from_(
        inner.subquery(alias="d")
    )
    wanted = exp.Floor(this=plus(times(double(column(WHOLE, "t")), number(params.share)), number(0.5)))
    tree = select_rows(given, {}, placed.subquery(alias="t"))
    return Changed(tree.where(exp.LTE(this=column(PLACE, "t"), expression=bigint(wanted))), seeds=[label])
