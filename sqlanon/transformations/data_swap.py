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

from pydantic import Field

from sqlanon.transformations import Changed, Given
from sqlanon.transformations._exchange import exchange_rows
from sqlanon.transformations._params import Columns, Names, Number, Within


class Params(Within):
    columns: Columns = Field(description="Columns whose values are exchanged, all of them together.")
    share: Number = Field(gt=0, le=1, description="Part of the rows that is drawn for an exchange.")
    within: Names = Field((), description="Columns on which both rows of a pair are equal.")


uses_secret = True


def change(params: Params, given: Given) -> Changed:
    return exchange_rows(params, given, "data_swap", params.share)
