"""The values of a column are shuffled inside groups of rows that are alike on other columns.

    transformations:
      - permutation: {columns: [salary], within: [department, sex]}

Every row gets the values that another row of its group had, all arrangements being equally likely; several columns move
together. So each group keeps its values, with all their sums and means, and nobody knows whose they are. Without
`within` all rows are one group, and only the distribution of the columns is left.

What it does not protect: groups of one row, or of rows whose values are all the same, or nearly so; ask for
k_e_anonymity on the column to have groups that are large and varied enough.
cite: Zhang, Koudas, Srivastava and Yu 2007
"""

from __future__ import annotations

from pydantic import Field, model_validator

from sqlanon.transformations import Changed, File, Given, Make
from sqlanon.transformations._lookup import taken
from sqlanon.transformations._params import Base, Columns, Names
from sqlanon.transformations.data_swap import draws


class Params(Base):
    columns: Columns = Field(description="Columns whose values are shuffled, all of them together.")
    within: Names = Field((), description="Columns that make the groups; all rows are one group if left out.")

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
    steps = [
        Make(stored, given.rows.copy()),
        Make(drawn, draws(given, stored, label, params.within, second=True)),
        Make(pairs, File("permutation", {}, {"drawn": drawn})),
    ]
    return Changed(taken(given, stored, pairs, params.columns), steps, [label])
