"""Values of a column change places with values of a near rank (rank swapping).

    transformations:
      - rank_swap: {columns: [income], percent: 5}

Each value is exchanged with one whose rank is at most `percent` percent of the rows away; which one is drawn. Numbers,
dates and times have ranks. All values stay in the column, as often as before: its distribution is kept exactly. Each
column is swapped by itself, so that its relation with other columns is weakened, the more the larger `percent` is. NULL
stays where it is; with an odd number of values one of them stays, too. Among equal values the draw decides.

What it does not protect: a rank. Whoever knows the rank of a person in the column, such as the highest income, knows
the value to within `percent`; and an outlier may swap with another outlier only.
cite: Moore 1996; Nin, Herranz and Torra 2008 (how well such files are linked)
"""

from __future__ import annotations

from pydantic import Field
from sqlglot import exp

from sqlanon.transformations import KEY, ROW, Ask, Changed, File, Given, Make, Step
from sqlanon.transformations._params import Base, Columns, Number
from sqlanon.transformations._sql import (
    alias,
    column,
    crossed,
    digest,
    is_known,
    is_ordered,
    number,
    require,
    seeded,
    selected,
    table,
    uniform,
)


class Params(Base):
    columns: Columns = Field(description="Columns of numbers, dates or times.")
    percent: Number = Field(gt=0, le=100, description="Largest distance of ranks, in percent of the values.")


keyed = True


def change(params: Params, given: Given) -> Changed:
    for name in params.columns:
        require(given, [name], is_ordered(given.columns[name]), "which has no ranks")
    stored = given.name("rows")
    steps: list[Step] = [Make(stored, given.rows.copy())]
    labels = [given.seed(name) for name in params.columns]
    changes: dict[str, exp.Expr] = {}
    tree = selected(given, {}, table(stored, "t"))
    for place, name in enumerate(params.columns):
        counted = exp.select(exp.alias_(exp.Count(this=column(name)), "n")).from_(table(stored)).subquery(alias="c")
        few = exp.LT(this=exp.Mul(this=exp.column("n"), expression=number(params.percent)), expression=number(400.0))
        steps.append(
            Ask(
                exp.select(exp.convert(1)).from_(counted).where(few),
                f"{params.percent:g} percent of the values of '{name}' are fewer than 4 ranks",
                "raise 'percent'",
            )
        )
        drawn, swapped = given.name(f"drawn_{place + 1}"), given.name(f"swapped_{place + 1}")
        steps.append(Make(drawn, _drawn(given, stored, name, labels[place])))
        steps.append(Make(swapped, File("rank_swap", {"percent": params.percent}, {"drawn": drawn})))
        short = f"w{place + 1}"
        tree.append(
            "joins",
            exp.Join(
                this=table(swapped, short), side="LEFT", on=column(ROW, "t").eq(exp.column("row_id", table=short))
            ),
        )
        changes[name] = exp.column("value", table=short)
    chosen = [alias(changes[item.name], item.name) if item.name in changes else item for item in tree.expressions]
    tree.set("expressions", chosen)
    return Changed(tree, steps, labels)


def _drawn(given: Given, stored: str, name: str, label: str) -> exp.Select:
    chosen = [
        exp.alias_(column(ROW, "r"), "row_id"),
        exp.alias_(column(name, "r"), "value"),
        exp.alias_(uniform(given.dialect, digest(given.dialect, "s", column(KEY, "r"))), "shift"),
        exp.alias_(uniform(given.dialect, digest(given.dialect, "s", column(KEY, "r")), 1), "second"),
    ]
    tree = exp.Select(expressions=chosen, from_=exp.From(this=table(stored, "r")))
    return crossed(tree, seeded(given, label, "s")).where(is_known(column(name, "r")))
