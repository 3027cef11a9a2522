"""Of each person only a few rows are kept: the latest ones, or rows that are drawn.

    transformations:
      - truncation: {rows: 3, by: day}
      - truncation: {rows: 3}

With `by`, the rows with the largest values of that column are kept; of rows with equal values it is drawn which ones,
and rows without a value go first. Without `by`, all rows are drawn. It needs a person column. The draw is the same in
every release: what is kept with fewer rows is a part of what is kept with more, so that several releases tell no more
than the one with most rows.

Where classes are persons with the same rows (`shape: entity`), few persons share a long history and many share a short
one: to keep few rows of each costs less than to suppress whole persons.

What it does not protect: the rows that are kept. That a person has fewer than so many rows is seen, and the latest rows
are often those that others know. Rows that are left out do not count as suppressed, and what a model compares a class
with are the rows that are left.
cite: Nergiz, Clifton and Nergiz 2009; de Montjoye, Hidalgo, Verleysen and Blondel 2013
"""

from __future__ import annotations

from pydantic import Field
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.sqltree.draws import cross_join, digest, nest_copy, seed_row, uniform
from sqlanon.sqltree.tree import column, literal
from sqlanon.transformations import KEY, Changed, Given
from sqlanon.transformations._params import Base
from sqlanon.transformations._rows import select_rows

DRAW = "\u2205 draw"
PLACE = "\u2205 place"


class Params(Base):
    rows: int = Field(ge=1, strict=True, description="Most rows of a person that are kept.")
    by: str | None = Field(None, min_length=1, description="Column by which the latest rows are kept, such as a day.")

    def read(self) -> dict[str, tuple[str, ...]]:
        return {"by": (self.by,)} if self.by is not None else {}


uses_secret = True
CHANGES_ROWS = True
SHARED_DRAWS = True  # for all numbers of rows: rows that were drawn anew would show more of a person


def change(params: Params, given: Given) -> Changed:
    if given.person is None:
        raise PolicyError(
            "truncation keeps a few rows of each person, and the policy names none", hint="add 'person: …'"
        )
    label = given.seed("rows")
    drawn = exp.alias_(uniform(given.dialect, digest(given.dialect, "s", column(KEY, "r"))), DRAW, quoted=True)
    inner = cross_join(exp.select("r.*", drawn).from_(nest_copy(given.rows, "r")), seed_row(given.seeds, label, "s"))
    order: list[exp.Expr] = [exp.Ordered(this=column(DRAW)), exp.Ordered(this=column(KEY))]
    if params.by is not None:
        order.insert(0, exp.Ordered(this=column(params.by), desc=True, nulls_first=False))
    place = exp.Window(this=exp.RowNumber(), partition_by=[column(given.person)], order=exp.Order(expressions=order))
    placed = exp.select("*", exp.alias_(place, PLACE, quoted=True)).from_(inner.subquery(alias="d"))
    tree = select_rows(given, {}, placed.subquery(alias="t"))
    return Changed(tree.where(column(PLACE, "t") <= literal(params.rows)), seeds=[label])
