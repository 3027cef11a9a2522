"""Rows are put into groups of k or more that are alike, and each shows the mean of its group.

    transformations:
      - microaggregation: {columns: [income, expenses], k: 5}

Groups are made by MDAV (maximum distance to average vector) on standardized columns: around the row farthest from the
middle, and around the row farthest from that one, k rows each, again and again. So that the time grows with the number
of rows and not with its square, the table is first cut into blocks of at most `block` rows, across their longest
extent; `exact: true` takes all rows as one block, for tables of at most 5,000 rows. Integers show the mean as an
integer, other numbers to `decimals`. Rows with a NULL in one of the columns are refused.

With all quasi-identifiers among the columns, the release is k-anonymous by itself, without any hierarchy.

What it does not protect: other columns, and a sensitive value that all rows of a group share. Means of groups with an
outlier tell that there is one. Microaggregation of columns one by one leaves their combinations open: put all that an
attacker may know into one use.
cite: Domingo-Ferrer and Torra 2005, Ordinal, continuous and heterogeneous k-anonymity through microaggregation
"""

from __future__ import annotations

import math

from pydantic import Field
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.transformations import KEY, ROW, Ask, Changed, Given, Make, Step
from sqlanon.transformations._mdav import halves, one_round, waiting
from sqlanon.transformations._params import Base, Columns
from sqlanon.transformations._sql import (
    FLOATS,
    alias,
    back,
    bigint,
    column,
    crossed,
    double,
    is_null,
    minus,
    over,
    require,
    selected,
    table,
)

MOST_EXACT = 5_000


class Params(Base):
    columns: Columns = Field(description="Numeric columns, which are grouped together.")
    k: int = Field(
        strict=True, ge=2, le=1000, description="Rows of a group, at least; less than twice as many at most."
    )
    exact: bool = Field(False, strict=True, description="Do not cut the table into blocks first.")
    block: int = Field(300, strict=True, ge=20, le=20_000, description="Most rows of a block.")
    decimals: int = Field(6, strict=True, ge=0, le=9, description="Decimals of results that are not integers.")


keyed = False
COUNTS = True  # the number of rounds depends on the number of rows


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "which has no mean")
    n, k = given.records, params.k
    if n < k:
        raise PolicyError(f"there are {n:,} rows, fewer than k", hint="take a smaller k")
    if params.exact and n > MOST_EXACT:
        raise PolicyError(
            f"there are {n:,} rows, exact groups are made of {MOST_EXACT:,} at most", hint="leave 'exact' out"
        )
    stored, means, start = given.name("rows"), given.name("means"), given.name("points")
    d = len(params.columns)
    steps: list[Step] = [Make(stored, given.rows.copy())]
    for name in params.columns:
        missing = exp.select(exp.convert(1)).from_(table(stored)).where(is_null(column(name)))
        steps.append(Ask(missing, f"'{name}' holds NULLs", "fill them, or leave such rows out with 'query:'"))
    steps += [Make(means, _means(params, stored)), Make(start, _points(params, stored, means))]
    source = start
    largest = n
    most = n if params.exact else max(params.block, 4 * k)
    cut = 0
    while largest > most:
        cut += 1
        made = given.name(f"cut_{cut}")
        steps.append(halves(made, source, d, k))
        source = made
        largest = largest - (largest // (2 * k)) * k  # the larger half
    # Each round takes 2k rows of a block; the last one takes what is left, fewer than 3k.
    found: list[str] = []
    for place in range(max(1, math.ceil((largest - 3 * k + 1) / (2 * k)) + 1)):
        open_ones = waiting(found[-1], d) if found else exp.select("*").from_(table(source))
        found.append(given.name(f"round_{place + 1}"))
        steps.append(one_round(found[-1], 2 * place, open_ones, d, k))
    groups, averages = given.name("groups"), given.name("averages")
    steps.append(Make(groups, _all(found)))
    steps.append(Make(averages, _averages(params, given, stored, start, groups)))
    changes = {name: exp.column(f"a{i}", table="a") for i, name in enumerate(params.columns, start=1)}
    tree = selected(given, changes, table(stored, "t"))
    tree.append("joins", exp.Join(this=table(start, "p"), on=column(ROW, "t").eq(exp.column("row_id", table="p"))))
    tree.append("joins", exp.Join(this=table(groups, "g"), on=_same("ord", "p", "g")))
    tree.append(
        "joins", exp.Join(this=table(averages, "a"), on=exp.and_(_same("block", "g", "a"), _same("grp", "g", "a")))
    )
    return Changed(tree, steps)


def _same(name: str, one: str, other: str) -> exp.Expr:
    return exp.column(name, table=one).eq(exp.column(name, table=other))


def _means(params: Params, stored: str) -> exp.Select:
    chosen = []
    for i, name in enumerate(params.columns, start=1):
        value = double(column(name))
        chosen += [
            alias(exp.Avg(this=value), f"m{i}"),
            alias(exp.Anonymous(this="STDDEV_SAMP", expressions=[value.copy()]), f"s{i}"),
        ]
    return exp.select(*chosen).from_(table(stored))


def _points(params: Params, stored: str, means: str) -> exp.Select:
    """Standardized values; a constant column has no extent, and counts for nothing."""
    order = exp.Order(
        expressions=[exp.Ordered(this=exp.MD5(this=column(KEY, "t"))), exp.Ordered(this=column(KEY, "t"))]
    )
    chosen = [
        alias(column(ROW, "t"), "row_id"),
        alias(exp.Window(this=exp.RowNumber(), order=order), "ord"),
        alias(bigint(exp.convert(0)), "block"),
    ]
    for i, name in enumerate(params.columns, start=1):
        spread = exp.Nullif(this=exp.column(f"s{i}", table="m"), expression=double(exp.convert(0)))
        scored = over(minus(double(column(name, "t")), exp.column(f"m{i}", table="m")), spread)
        chosen.append(alias(exp.Coalesce(this=scored, expressions=[double(exp.convert(0))]), f"z{i}"))
    return crossed(exp.select(*chosen).from_(table(stored, "t")), table(means, "m"))


def _all(found: list[str]) -> exp.Query:
    known = exp.column("grp").is_(exp.Null()).not_()
    parts = [exp.select("ord", "block", "grp").from_(table(name)).where(known.copy()) for name in found]
    tree: exp.Query = parts[0]
    for part in parts[1:]:
        tree = exp.union(tree, part, distinct=False, copy=False)
    return tree


def _averages(params: Params, given: Given, stored: str, start: str, groups: str) -> exp.Select:
    chosen: list[exp.Expr] = [exp.column("block", table="g"), exp.column("grp", table="g")]
    for i, name in enumerate(params.columns, start=1):
        mean: exp.Expr = exp.Avg(this=double(column(name, "t")))
        if given.columns[name].this not in FLOATS:
            # Means of few decimals are often halfway: an exact sum keeps its order from deciding which way they go.
            mean = over(double(exp.Sum(this=column(name, "t"))), double(exp.Count(this=exp.Star())))
        chosen.append(alias(back(mean, given.columns[name], params.decimals), f"a{i}"))
    tree = exp.select(*chosen).from_(table(stored, "t"))
    tree.append("joins", exp.Join(this=table(start, "p"), on=column(ROW, "t").eq(exp.column("row_id", table="p"))))
    tree.append("joins", exp.Join(this=table(groups, "g"), on=_same("ord", "p", "g")))
    return tree.group_by(exp.column("block", table="g"), exp.column("grp", table="g"))
