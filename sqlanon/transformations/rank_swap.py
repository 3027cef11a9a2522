"""Values of a column change places with values of a near rank (rank swapping).

    transformations:
      - rank_swap: {columns: [income], percent: 5}

Each value is exchanged with one whose rank is at most `percent` percent of the rows away; which one is drawn. Numbers,
dates and times have ranks. All values stay in the column, as often as before: its distribution is kept exactly. Each
column is swapped by itself, so that its relation with other columns is weakened, the more the larger `percent` is. NULL
stays where it is; with an odd number of values one of them stays, too. Equal values have their ranks in a random order.

What it does not protect: a rank. An attacker who knows the rank of a person in the column, such as the highest income,
knows the value to within `percent`; and an outlier may swap with another outlier only.
cite: Moore 1996; Nin, Herranz and Torra 2008 (how well such files are linked)
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field
from sqlglot import exp

from sqlanon.sqltree.draws import alias, is_ordered, minus, nest_copy, number, times
from sqlanon.sqltree.tree import column, table
from sqlanon.transformations import ROW, Changed, DataCheck, File, Given, Make
from sqlanon.transformations._draws import draw, hash_rows
from sqlanon.transformations._exchange import store_rows
from sqlanon.transformations._params import Base, Columns, Number
from sqlanon.transformations._rows import require, select_rows


class Params(Base):
    columns: Columns = Field(description="Columns of numbers, dates or times.")
    percent: Number = Field(gt=0, le=100, description="Largest distance of ranks, in percent of the values.")


uses_secret = True
MOST_VALUES = 10**9  # places of more values, with the values themselves, would not fit into 62 bits


def change(params: Params, given: Given) -> Changed:
    for name in params.columns:
        require(given, [name], is_ordered(given.columns[name]), "which has no ranks")
    given, steps = store_rows(given)
    labels: list[str] = []
    changes: dict[str, exp.Expr] = {}
    joins: list[exp.Join] = []
    for place, name in enumerate(params.columns, start=1):
        swapped, short = given.name(f"swapped_{place}"), f"w{place}"
        found = hash_rows(given, [given.seed(name)], given.name(f"hashes_{place}"))
        labels += found.labels
        steps += [*_countable(params, given, name), *found.steps]
        relations = {"known": _known(given, name), "drawn": _drawn(given, name, found.rows)}
        steps.append(Make(swapped, File("rank_swap", {"percent": params.percent}, relations)))
        same = column(ROW, "t").eq(exp.column("row_id", table=short))
        joins.append(exp.Join(this=table(swapped, short), on=same))
        changes[name] = exp.column("value", table=short)
    tree = select_rows(given, changes, nest_copy(given.rows, "t"))
    tree.set("joins", joins)
    return Changed(tree, steps, labels)


def _countable(params: Params, given: Given, name: str) -> list[DataCheck]:
    every = alias(exp.Count(this=column(name, "r")), "n")
    counted = exp.Select(expressions=[every], from_=exp.From(this=nest_copy(given.rows, "r"))).subquery(alias="c")
    n = exp.column("n")
    few = exp.LT(this=exp.Mul(this=n, expression=number(params.percent)), expression=number(400.0))
    many = exp.GT(this=n.copy(), expression=number(MOST_VALUES))
    asked = exp.select(exp.convert(1)).from_(counted)
    told = f"{params.percent:g} percent of the values of '{name}' are fewer than 4 ranks"
    return [
        DataCheck(asked.where(few), told, "raise 'percent'"),
        DataCheck(asked.where(many), f"'{name}' has more than {MOST_VALUES:,} values", "publish the table in parts"),
    ]


def _known(given: Given, name: str) -> exp.Select:
    """(row_id, value)"""
    chosen: list[exp.Expr] = [alias(column(ROW, "r"), "row_id"), alias(column(name, "r"), "value")]
    return exp.Select(expressions=chosen, from_=exp.From(this=nest_copy(given.rows, "r")))


def _drawn(given: Given, name: str, rows: exp.Select) -> exp.Select:
    """(row_id, value, shift, second): one draw, and what its last bits, all but 16, are by themselves."""
    second = draw(given, "r")
    moved = times(second.copy(), number(65536.0))
    shift = minus(moved, exp.Floor(this=moved.copy()))
    draws = [alias(shift, "shift"), alias(second, "second")]
    return _known(replace(given, rows=rows), name).select(*draws, copy=False)
