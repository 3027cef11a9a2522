"""What methods that put rows into groups of k ask of them, and show of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.sqltree.draws import (
    FLOATS,
    INTEGERS,
    alias,
    back,
    cross_join,
    is_not_finite,
    is_null,
    minus,
    nest_copy,
    over,
)
from sqlanon.sqltree.tree import bigint, column, double, table
from sqlanon.transformations import ROW, DataCheck, Given, Make, Step
from sqlanon.transformations._mdav import order

MOST_EXACT = 5_000
SMALLEST_BLOCK = 4  # times k


def require_rows(records: int, k: int, exact: bool, block: int) -> int:
    """The most rows of a block."""
    if records < k:
        raise PolicyError(f"there are {records:,} rows, fewer than k", hint="take a smaller k")
    if exact and records > MOST_EXACT:
        raise PolicyError(
            f"there are {records:,} rows, exact groups are made of {MOST_EXACT:,} at most", hint="leave 'exact' out"
        )
    return records if exact else max(block, SMALLEST_BLOCK * k)


def forbid_nulls(given: Given, names: Sequence[str]) -> list[Step]:
    """Whether a column holds NULLs, which have no distance."""
    found: list[Step] = []
    for name in names:
        missing = exp.select(exp.convert(1)).from_(nest_copy(given.rows, "t")).where(is_null(column(name, "t")))
        found.append(DataCheck(missing, f"'{name}' holds NULLs", "fill them, or leave such rows out with 'query:'"))
    return found


def not_finite(given: Given, names: Sequence[str]) -> list[Step]:
    """Whether a column holds NaN or infinities, one of which would spoil its mean and all that is made of it."""
    found: list[Step] = []
    for name in names:
        if given.columns[name].this in INTEGERS:
            continue
        spoilt = exp.select(exp.convert(1)).from_(nest_copy(given.rows, "t")).where(is_not_finite(column(name, "t")))
        hint = "replace them by NULL in a query, or leave such rows out"
        found.append(DataCheck(spoilt, f"'{name}' holds NaN or infinite values", hint))
    return found


def standardize_points(given: Given, names: Sequence[str]) -> tuple[str, list[Step]]:
    """Points of the columns, (row_id, ord, block, z…). A constant column has no extent, and counts for nothing."""
    means, start = given.name("means"), given.name("points")
    found: list[exp.Expr] = []
    for i, name in enumerate(names, start=1):
        value = double(column(name, "t"))
        found.append(alias(exp.Avg(this=value), f"m{i}"))
        found.append(alias(exp.Anonymous(this="STDDEV_SAMP", expressions=[value.copy()]), f"s{i}"))
    scores: list[exp.Expr] = []
    for i, name in enumerate(names, start=1):
        spread = exp.Nullif(this=exp.column(f"s{i}", table="m"), expression=double(exp.convert(0)))
        scored = over(minus(double(column(name, "t")), exp.column(f"m{i}", table="m")), spread)
        scores.append(exp.Coalesce(this=scored, expressions=[double(exp.convert(0))]))
    measured = exp.Select(expressions=found, from_=exp.From(this=nest_copy(given.rows, "t")))
    return start, [Make(means, measured), Make(start, cross_join(points(given, scores), table(means, "m")))]


def points(given: Given, scores: Sequence[exp.Expr]) -> exp.Select:
    """(row_id, ord, block, z…) of the rows `t`, which are one block."""
    own = [alias(column(ROW, "t"), "row_id"), alias(order(given.dialect, "t"), "ord")]
    own.append(alias(bigint(exp.convert(0)), "block"))
    scored = [alias(score, f"z{i}") for i, score in enumerate(scores, start=1)]
    return exp.Select(expressions=[*own, *scored], from_=exp.From(this=nest_copy(given.rows, "t")))


def mean_of(given: Given, name: str, decimals: int) -> exp.Expr:
    """The mean of a column of the rows `t`, as a value of it."""
    mean: exp.Expr = exp.Avg(this=double(column(name, "t")))
    if given.columns[name].this not in FLOATS:
        # Means of few decimals are often halfway: an exact sum keeps its order from deciding which way they go.
        mean = over(double(exp.Sum(this=column(name, "t"))), double(exp.Count(this=exp.Star())))
    return back(mean, given.columns[name], decimals)
