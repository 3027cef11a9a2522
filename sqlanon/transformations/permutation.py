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

from pydantic import Field

from sqlanon.transformations import Changed, Given
from sqlanon.transformations._exchange import exchange_rows
from sqlanon.transformations._params import Columns, Names, Within


class Params(Within):
    columns: Columns = Field(description="Columns whose values are shuffled, all of them together.")
    within: Names = Field((), description="Columns that make the groups; all rows are one group if left out.")


uses_secret = True


def change(params: Params, given: Given) -> Changed:
    return exchange_rows(params, given, "permutation")
