"""Some rows exchange the values of some columns, in pairs, among rows that are alike elsewhere (data swapping).

    transformations:
      - data_swap: {columns: [zip, street], share: 0.1, within: [region, age]}

Rows are drawn with the probability `share`, and two by two exchange the values of all `columns` with one another,
inside each combination of the values of `within`. So the joint distribution of `columns`, and that of `columns` and
`within` together, is kept exactly; what is weakened is the relation with all other columns. An odd row in a combination
keeps its values. The draw of a row is the same in every release, its partner may change.

What it does not protect: rows that were not drawn, and those whose partner has the same values. Where a combination of
`within` has one row, it is never changed.
cite: Dalenius and Reiss 1982; Fienberg and McIntyre 2004
"""

from __future__ import annotations

from pydantic import Field, model_validator
from sqlglot import exp

from sqlanon.transformations import KEY, ROW, Changed, File, Given, Make
from sqlanon.transformations._lookup import taken
from sqlanon.transformations._params import Base, Columns, Names, Number
from sqlanon.transformations._sql import (
    canonical,
    column,
    crossed,
    digest,
    joined,
    number,
    seeded,
    string,
    table,
    uniform,
)


class Params(Base):
    columns: Columns = Field(description="Columns whose values are exchanged, all of them together.")
    share: Number = Field(gt=0, le=1, description="Part of the rows that is drawn for an exchange.")
    within: Names = Field((), description="Columns on which both rows of a pair are equal.")

    def read(self) -> dict[str, tuple[str, ...]]:
        return {"columns": self.columns} | ({"within": self.within} if self.within else {})

    @model_validator(mode="after")
    def _apart(self) -> Params:
        both = [name for name in self.columns if name in self.within]
        if both:
            raise ValueError(f"'{both[0]}' is in 'columns' and in 'within'; keep it in one of them")
        return self


keyed = True


def change(params: Params, given: Given) -> Changed:
    stored, drawn, pairs = given.name("rows"), given.name("drawn"), given.name("pairs")
    label = given.seed("rows")
    tree = draws(given, stored, label, params.within, second=False)
    chosen = uniform(given.dialect, digest(given.dialect, "s", column(KEY, "r")), 1)
    tree = tree.where(exp.LT(this=chosen, expression=number(params.share)))
    steps = [Make(stored, given.rows.copy()), Make(drawn, tree), Make(pairs, File("data_swap", {}, {"drawn": drawn}))]
    return Changed(taken(given, stored, pairs, params.columns), steps, [label])


def draws(given: Given, stored: str, label: str, within: tuple[str, ...], *, second: bool) -> exp.Select:
    """(row_id, stratum, key, draw[, second]) of rows that were stored; the seed is called `s`, the rows `r`."""
    parts: list[exp.Expr] = [string("")]
    for name in within:
        parts += [canonical(name, given.columns[name]), string("|")]
    chosen = [
        exp.alias_(column(ROW, "r"), "row_id"),
        exp.alias_(joined(parts), "stratum"),
        exp.alias_(column(KEY, "r"), "key"),
        exp.alias_(uniform(given.dialect, digest(given.dialect, "s", column(KEY, "r"))), "draw"),
    ]
    if second:
        chosen.append(exp.alias_(uniform(given.dialect, digest(given.dialect, "s", column(KEY, "r")), 1), "second"))
    return crossed(exp.Select(expressions=chosen, from_=exp.From(this=table(stored, "r"))), seeded(given, label, "s"))
