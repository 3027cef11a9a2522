"""Rows are put into groups of k or more that are alike, and numbers are drawn anew for each group.

    transformations:
      - condensation: {columns: [income, expenses], k: 20}

Of each group only its mean and the covariances of its columns are kept; each row of it gets new numbers, drawn at
random so that they have that mean and these covariances. So means and covariances of the table stay on average, within
groups and between them, and no number is anybody's own. Groups are made as for microaggregation, block by block. Draws
are even, between bounds, so that no result is far off its group. Covariances are drawn by their Cholesky factor, which
keeps them as eigenvectors do. Integers stay integers, other numbers have `decimals`. A NULL, NaN or infinity is
refused.

What it does not protect: other columns; a group whose rows are all the same, which stays as it is; and that somebody
with unusual values is there, since groups of outliers stay far out. Unlike means of groups, results are not k-anonymous
by themselves: each row has numbers of its own, though they are nobody's.
cite: Aggarwal and Yu 2004, A condensation approach to privacy preserving data mining
"""

from __future__ import annotations

from pydantic import Field, field_validator
from sqlglot import exp

from sqlanon.sqltree.draws import alias, back, cross_join, digest, minus, number, plus, seed_row, times, uniform
from sqlanon.sqltree.tree import column, double, table
from sqlanon.transformations import KEY, Changed, Given, Make
from sqlanon.transformations._covariance import cholesky
from sqlanon.transformations._exchange import store_rows
from sqlanon.transformations._groups import forbid_nulls, not_finite, require_rows, standardize_points
from sqlanon.transformations._mdav import apply_groups, group_points, of_groups
from sqlanon.transformations._params import Base, Columns
from sqlanon.transformations._rows import require

MOST_COLUMNS = 20  # with covariances, all of which are written out


class Params(Base):
    columns: Columns = Field(description="Numeric columns, which are grouped and drawn together.")
    k: int = Field(strict=True, ge=2, le=1000, description="Rows of a group, at least.")
    block: int = Field(300, strict=True, ge=20, le=20_000, description="Most rows of a block.")
    decimals: int = Field(6, strict=True, ge=0, le=9, description="Decimals of results that are not integers.")

    def apart(self) -> bool:
        return False

    @field_validator("columns")
    @classmethod
    def _few_columns(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if len(columns) > MOST_COLUMNS:
            raise ValueError(f"covariances of more than {MOST_COLUMNS} columns are not kept; ask for fewer at once")
        return columns


uses_secret = True
COUNTS = True  # the number of rounds depends on the number of rows


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "which has no mean")
    most = require_rows(given.records, params.k, exact=False, block=params.block)
    given, steps = store_rows(given)
    steps += [*forbid_nulls(given, params.columns), *not_finite(given, params.columns)]
    start, made = standardize_points(given, params.columns)
    grouping, groups = group_points(given, start, len(params.columns), params.k, most)
    means, spread = given.name("group_means"), given.name("group_spread")
    values = [double(column(name, "t")) for name in params.columns]
    averages: list[exp.Expr] = [alias(exp.Avg(this=value), f"m{i}") for i, value in enumerate(values)]
    steps += [*made, *grouping, Make(means, of_groups(given, start, groups, averages))]
    steps.append(Make(spread, _spread(params, given, start, groups, means)))
    carried = ["block", "grp", *(f"m{i}" for i in range(len(values)))]
    roots, factors = cholesky(given.name("factor"), spread, len(values), carried)
    labels = [given.seed(f"{number_}") for number_ in range((len(values) + 1) // 2)]
    changes = {}
    for i, name in enumerate(params.columns):
        parts = [times(exp.column(f"l{i}_{j}", table="a"), _draw(given, j)) for j in range(i + 1)]
        changes[name] = back(plus(exp.column(f"m{i}", table="a"), *parts), given.columns[name], params.decimals)
    tree = apply_groups(given, start, groups, factors, changes)
    tree = cross_join(tree, *(seed_row(given.seeds, label, f"d{place}") for place, label in enumerate(labels)))
    return Changed(tree, [*steps, *roots], labels)


def _spread(params: Params, given: Given, start: str, groups: str, means: str) -> exp.Select:
    """The covariances of each group, and its means."""
    off = [minus(double(column(name, "t")), exp.column(f"m{i}", table="m")) for i, name in enumerate(params.columns)]
    pairs = [(i, j) for i in range(len(off)) for j in range(i + 1)]
    chosen: list[exp.Expr] = [alias(exp.Max(this=exp.column(f"m{i}", table="m")), f"m{i}") for i in range(len(off))]
    chosen += [alias(exp.Avg(this=times(off[i].copy(), off[j].copy())), f"s{i}_{j}") for i, j in pairs]
    tree = of_groups(given, start, groups, chosen)
    same = [exp.column(item, table="g").eq(exp.column(item, table="m")) for item in ("block", "grp")]
    tree.append("joins", exp.Join(this=table(means, "m"), on=exp.and_(*same)))
    return tree


def _draw(given: Given, place: int) -> exp.Expr:
    """An even draw with mean 0 and variance 1; a hash serves two columns."""
    even = uniform(given.dialect, digest(given.dialect, f"d{place // 2}", column(KEY, "t")), place % 2)
    return times(minus(even, number(0.5)), number(12**0.5))
