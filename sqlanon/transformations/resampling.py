"""Numbers are replaced by means of samples: the smallest one by the mean of the smallest of each sample, and so on.

    transformations:
      - resampling: {columns: [income], samples: 3}

As many values as there are are drawn with replacement, `samples` times; each sample is sorted, and a row whose value
has the rank j gets the mean of the values of rank j in all samples. So the order of rows, the mean and roughly the
distribution stay, and hardly a value is exact. Each column is resampled by itself. Integers stay integers, other
numbers have `decimals`. NULL stays NULL.

What it does not protect: ranks, which stay as they are: the highest income is still the highest one. The more samples,
the closer results are to the true values; and in the middle of a large table they are close anyway.
cite: Heer 1993; Domingo-Ferrer and Torra 2001
"""

from __future__ import annotations

from pydantic import Field
from sqlglot import exp

from sqlanon.sqltree.draws import alias, back, cross_join, digest, is_known, nest_copy, seed_row, uniform
from sqlanon.sqltree.tree import bigint, column, table
from sqlanon.transformations import KEY, ROW, Changed, DataCheck, File, Given, Make
from sqlanon.transformations._exchange import store_rows
from sqlanon.transformations._params import Base, Columns
from sqlanon.transformations._rows import require, select_rows

FEWEST = 5  # values of which samples differ enough


class Params(Base):
    columns: Columns = Field(description="Numeric columns, each of which is resampled by itself.")
    samples: int = Field(3, strict=True, ge=1, le=50, description="How many samples the means are taken of.")
    decimals: int = Field(6, strict=True, ge=0, le=9, description="Decimals of results that are not integers.")


uses_secret = True


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "which has no mean")
    given, steps = store_rows(given)
    labels: list[str] = []
    changes: dict[str, exp.Expr] = {}
    joins: list[exp.Join] = []
    for place, name in enumerate(params.columns, start=1):
        ranked, drawn, means = (given.name(f"{what}_{place}") for what in ("ranked", "drawn", "means"))
        own = [given.seed(f"{name}/{number}", name) for number in range((params.samples + 1) // 2)]
        relations = {"ranked": ranked, "drawn": drawn}
        steps += [Make(ranked, _ranked(given, name)), _few(name, ranked), Make(drawn, _drawn(params, given, name, own))]
        steps.append(Make(means, File("resampling", {}, relations)))
        row, rank = f"r{place}", f"m{place}"
        same = column(ROW, "t").eq(exp.column("row_id", table=row))
        joins.append(exp.Join(this=table(ranked, row), side="LEFT", on=same))
        equal = exp.column("place", table=row).eq(exp.column("place", table=rank))
        joins.append(exp.Join(this=table(means, rank), side="LEFT", on=equal))
        changes[name] = back(exp.column("mean", table=rank), given.columns[name], params.decimals)
        labels += own
    tree = select_rows(given, changes, nest_copy(given.rows, "t"))
    tree.set("joins", joins)
    return Changed(tree, steps, labels)


def _ranked(given: Given, name: str) -> exp.Select:
    """(row_id, place, value): equal values get the same few results, in the order of their identities."""
    hashed = uniform(given.dialect, digest(given.dialect, None, column(KEY, "t")))
    ordered = [exp.Ordered(this=item) for item in (column(name, "t"), hashed, column(KEY, "t"))]
    place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=ordered))
    chosen = [alias(column(ROW, "t"), "row_id"), alias(place, "place"), alias(column(name, "t"), "value")]
    tree = exp.Select(expressions=chosen, from_=exp.From(this=nest_copy(given.rows, "t")))
    return tree.where(is_known(column(name, "t")))


def _drawn(params: Params, given: Given, name: str, labels: list[str]) -> exp.Query:
    """(sample, key, draw): a hash has the draws of two samples."""
    tree: exp.Query | None = None
    for number in range(params.samples):
        draw = uniform(given.dialect, digest(given.dialect, "s", column(KEY, "t")), number % 2)
        chosen = [alias(bigint(exp.convert(number)), "sample"), alias(column(KEY, "t"), "key"), alias(draw, "draw")]
        part = cross_join(
            exp.Select(expressions=chosen, from_=exp.From(this=nest_copy(given.rows, "t"))),
            seed_row(given.seeds, labels[number // 2], "s"),
        ).where(is_known(column(name, "t")))
        tree = part if tree is None else exp.union(tree, part, distinct=False, copy=False)
    assert tree is not None
    return tree


def _few(name: str, ranked: str) -> DataCheck:
    counted = exp.select(alias(exp.Count(this=exp.Star()), "n")).from_(table(ranked)).subquery(alias="c")
    few = exp.LT(this=exp.column("n"), expression=exp.convert(FEWEST))
    return DataCheck(
        exp.select(exp.convert(1)).from_(counted).where(few), f"'{name}' has fewer than {FEWEST} values", "take it out"
    )
