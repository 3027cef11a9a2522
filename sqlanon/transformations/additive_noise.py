"""Random numbers are added to numeric columns, so that no value is exact and means stay right on average.

    transformations:
      - additive_noise: {columns: [income, expenses], alpha: 0.1, kind: linear}

The noise is normal, and its variance is `alpha` times that of the column. `kind` says how it hangs together:
`uncorrelated` (each column by itself: means stay, variances grow by 1 + alpha, correlations shrink);
`correlated` (noise with the covariances of the columns, times alpha: correlations stay, covariances grow by 1 + alpha);
`linear` (as correlated, then drawn together again around the mean: means and covariances stay on average).
Results are rounded to `decimals`, integers to integers. NULL stays NULL where the kind is uncorrelated; covariances
need rows without NULLs. NaN and infinities are refused. Each row has its own draw, which is the same in every release.

What it does not protect: outliers, which stay outliers; and small tables, since a class of few rows is not made larger.
Whoever knows several noisy columns of a person may still recognize the row: measure it with 'sqlanon risk'.
cite: Kim 1986; Tendick and Matloff 1994; Brand 2002
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from sqlglot import exp

from sqlanon.transformations import Ask, Changed, Given, Make, Step
from sqlanon.transformations._covariance import NOTHING, cholesky
from sqlanon.transformations._draws import hashed, normal
from sqlanon.transformations._groups import not_finite
from sqlanon.transformations._params import Base, Columns, Number
from sqlanon.transformations._sql import (
    INTEGERS,
    alias,
    back,
    column,
    crossed,
    double,
    is_null,
    minus,
    nested,
    number,
    over,
    plus,
    require,
    scale_of,
    selected,
    table,
    times,
)

MOST_TOGETHER = 20  # columns with covariances, all of which are written out


class Params(Base):
    columns: Columns = Field(description="Numeric columns.")
    alpha: Number = Field(gt=0, le=10, description="Variance of the noise, as a multiple of that of the column.")
    kind: Literal["uncorrelated", "correlated", "linear"] = Field(
        "uncorrelated", description="Whether noise keeps correlations (correlated), or covariances and means (linear)."
    )
    decimals: int = Field(6, strict=True, ge=0, le=9, description="Decimals of results that are not integers.")

    @model_validator(mode="after")
    def _few_columns(self) -> Params:
        if self.kind != "uncorrelated" and len(self.columns) > MOST_TOGETHER:
            raise ValueError(f"covariances of more than {MOST_TOGETHER} columns are not kept; ask for fewer at once")
        return self


keyed = True


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "to which no number can be added")
    steps = not_finite(given, params.columns)
    means, spread = given.name("means"), given.name("spread")
    values = {place: double(column(name, "t")) for place, name in enumerate(params.columns)}
    together = params.kind != "uncorrelated"
    if together:
        for name in params.columns:
            missing = exp.select(exp.convert(1)).from_(nested(given.rows, "t")).where(is_null(column(name, "t")))
            steps.append(
                Ask(
                    missing,
                    f"'{name}' holds NULLs, covariances need rows without",
                    "fill them, or ask for kind: uncorrelated",
                )
            )
    averages = [alias(exp.Avg(this=value.copy()), f"m{place}") for place, value in values.items()]
    steps.append(Make(means, exp.Select(expressions=averages, from_=exp.From(this=nested(given.rows, "t")))))
    off = {place: minus(value.copy(), exp.column(f"m{place}", table="m")) for place, value in values.items()}
    pairs = [(i, j) for i in values for j in values if (j <= i if together else i == j)]
    squares = [alias(exp.Avg(this=times(off[i].copy(), off[j].copy())), f"s{i}_{j}") for i, j in pairs]
    tree = exp.Select(expressions=squares, from_=exp.From(this=nested(given.rows, "t")))
    steps.append(Make(spread, crossed(tree, table(means, "m"))))
    steps += _questions(params, given, spread)
    if together:
        roots, factors = cholesky(given.name("factor"), spread, len(values))
        steps += [*roots, *_dependent(params, factors)]
    else:
        factors = given.name("factors")
        own_roots = [alias(exp.Sqrt(this=exp.column(f"s{i}_{i}")), f"l{i}_{i}") for i in values]
        steps.append(Make(factors, exp.select(*own_roots).from_(table(spread))))
    found = hashed(given, params.columns)
    normals = {place: normal(given, "t", place) for place in values}
    changes = {}
    for place, name in enumerate(params.columns):
        own = [j for j in values if (j <= place if together else j == place)]
        noise = plus(*(times(exp.column(f"l{place}_{j}", table="f"), normals[j].copy()) for j in own))
        noisy = plus(values[place].copy(), times(number(params.alpha**0.5), noise))
        if params.kind == "linear":
            mean = exp.column(f"m{place}", table="m")
            noisy = plus(mean, over(minus(noisy, mean.copy()), number((1 + params.alpha) ** 0.5)))
        changes[name] = back(noisy, given.columns[name], params.decimals)
    tree = selected(given, changes, found.rows.subquery(alias="t"))
    steps += found.steps
    return Changed(crossed(tree, table(factors, "f"), table(means, "m")), steps, found.labels)


def _questions(params: Params, given: Given, spread: str) -> list[Step]:
    """A column without spread gets no noise, and one whose spread is rounded away gets none that is seen."""
    found: list[Step] = []
    for place, name in enumerate(params.columns):
        kind = given.columns[name]
        scale = 0 if kind.this in INTEGERS else scale_of(kind)
        places = params.decimals if scale is None else min(params.decimals, scale)
        least = params.alpha * 10.0 ** (2 * places)
        narrow = exp.LT(this=times(exp.column(f"s{place}_{place}"), number(least)), expression=number(0.01))
        unknown = is_null(exp.column(f"s{place}_{place}"))
        found.append(
            Ask(
                exp.select(exp.convert(1)).from_(table(spread)).where(exp.Or(this=narrow, expression=unknown)),
                f"'{name}' is constant, or varies too little for noise that is seen in {places} decimals",
                "take the column out, or raise 'alpha' or 'decimals'",
            )
        )
    return found


def _dependent(params: Params, factors: str) -> list[Step]:
    found: list[Step] = []
    for place, name in enumerate(params.columns):
        told = exp.LTE(this=exp.column(f"w{place}"), expression=number(NOTHING))
        found.append(
            Ask(
                exp.select(exp.convert(1)).from_(table(factors)).where(told),
                f"'{name}' is a linear function of the columns before it",
                "take it out, and compute it from the others afterwards",
            )
        )
    return found
