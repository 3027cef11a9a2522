"""The root of a matrix of covariances: its product with independent draws has them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.sqltree.draws import alias, minus, number, over, times
from sqlanon.sqltree.tree import case, table
from sqlanon.transformations import Make

NOTHING = 1e-9  # of a variance, below which the columns before it tell the column


def cholesky(prefix: str, source: str, count: int, carried: Sequence[str] = ()) -> tuple[list[Make], str]:
    """The Cholesky factor of each row of `source`, which has the lower half of a matrix as s0_0, s1_0, s1_1, …

    One table for each column of the factor; the last one has all of it as l0_0, l1_0, …, the variances as v0, v1, …,
    and the columns that are carried on. What is left of a variance after the columns before it, as a share of it, is
    w0, w1, …; where that is next to NOTHING it is rounding alone, and the factor has zeros there.
    """
    steps: list[Make] = []
    for j in range(count):
        left = exp.column(f"s{j}_{j}")
        whole = left.copy() if j == 0 else exp.column(f"v{j}")
        share = over(left.copy(), exp.Nullif(this=whole.copy(), expression=number(0.0)))
        sound = exp.GT(this=left.copy(), expression=times(whole.copy(), number(NOTHING)))
        chosen: list[exp.Expr] = [exp.column(name) for name in carried]
        chosen += [exp.column(f"w{b}") for b in range(j)]
        chosen += [exp.column(f"l{i}_{b}") for b in range(j) for i in range(b, count)]
        if j == 0:
            chosen += [alias(exp.column(f"s{i}_{i}"), f"v{i}") for i in range(count)]
        else:
            chosen += [exp.column(f"v{i}") for i in range(count)]
        chosen.append(alias(exp.Coalesce(this=share, expressions=[number(0.0)]), f"w{j}"))
        for i in range(j, count):
            root = over(exp.column(f"s{i}_{j}"), exp.Sqrt(this=left.copy()))
            chosen.append(alias(case((sound.copy(), root), default=number(0.0)), f"l{i}_{j}"))
        for i in range(j + 1, count):
            for k in range(j + 1, i + 1):
                told = over(times(exp.column(f"s{i}_{j}"), exp.column(f"s{k}_{j}")), left.copy())
                rest = case((sound.copy(), told), default=number(0.0))
                chosen.append(alias(minus(exp.column(f"s{i}_{k}"), rest), f"s{i}_{k}"))
        made = f"{prefix}_{j + 1}"
        steps.append(Make(made, exp.select(*chosen).from_(table(source))))
        source = made
    return steps, source
