"""Random numbers are added to numeric columns, so that no value is exact and means stay right on average.

    transformations:
      - additive_noise: {columns: [income, expenses], alpha: 0.1, kind: linear}
      - additive_noise: {columns: [rent], alpha: 0.5, ladder: [0.1, 0.2, 0.5]}

The noise is normal, and its variance is `alpha` times that of the column. `kind` says how it hangs together:
`uncorrelated` (each column by itself: means stay, variances grow by 1 + alpha, correlations shrink);
`correlated` (noise with the covariances of the columns, times alpha: correlations stay, covariances grow by 1 + alpha);
`linear` (as correlated, then drawn together again around the mean: means and covariances stay on average).
Results are rounded to `decimals`, integers to integers. NULL stays NULL where the kind is uncorrelated; covariances
need rows without NULLs. NaN and infinities are refused.

Each row has its own draw, which is the same in every release with the same parameters. For readers who are trusted
more and less, declare all levels as a `ladder`, the same in each policy, and take one of them as `alpha`: the noise of
a level is that of the level below, and more on top, so that all versions together tell no more than the one with the
least noise (the covariance of the noise of two of them is the smaller variance). Any other second level for the same
rows is refused when it is published: two draws for one value can be averaged. Spreads are taken in steps of about 2
percent, and each step has draws of its own: one draw at two scales, which differ by a row that came, would give the
values back. So a second release of the same rows is also refused where the column has come to spread more or less, by a
step; 'spread: {income: 12000}' takes the scale of the release before.

What it does not protect: outliers, which stay outliers; and small tables, since a class of few rows is not made larger.
An attacker who knows several noisy columns of a person may still recognize the row: measure it with 'sqlanon risk'.
Where a value changes from one release to the next, its draw stays: an attacker who has both knows the change.
cite: Kim 1986; Tendick and Matloff 1994; Brand 2002; Xiao, Tao and Chen 2009; Li, Chen, Li and Zhang 2012 (ladders)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from sqlglot import exp

from sqlanon.sqltree.draws import (
    INTEGERS,
    alias,
    back,
    concatenate,
    cross_join,
    is_null,
    minus,
    nest_copy,
    number,
    over,
    plus,
    scale_of,
    seed_row,
    string,
    times,
)
from sqlanon.sqltree.tree import TEXT, bigint, column, double, table, text
from sqlanon.transformations import Changed, DataCheck, Given, Make, Step
from sqlanon.transformations._covariance import NOTHING, cholesky
from sqlanon.transformations._draws import hash_rows, normal
from sqlanon.transformations._groups import not_finite
from sqlanon.transformations._params import Base, Columns, Number
from sqlanon.transformations._rows import require, select_rows

STEPS = 32  # of a standard deviation while it doubles
SHARES = 256  # steps of a share of it
MOST_TOGETHER = 20  # columns with covariances, all of which are written out


class Params(Base):
    columns: Columns = Field(description="Numeric columns.")
    alpha: Number = Field(gt=0, le=10, description="Variance of the noise, as a multiple of that of the column.")
    kind: Literal["uncorrelated", "correlated", "linear"] = Field(
        "uncorrelated", description="Whether noise keeps correlations (correlated), or covariances and means (linear)."
    )
    decimals: int = Field(6, strict=True, ge=0, le=9, description="Decimals of results that are not integers.")
    ladder: tuple[Annotated[Number, Field(gt=0, le=10)], ...] = Field(
        (), max_length=20, description="All levels of alpha that are ever published of these rows, from low to high."
    )
    spread: dict[str, Annotated[Number, Field(gt=0)]] = Field(
        {}, description="Standard deviations to take in place of those that columns have now (uncorrelated noise)."
    )

    def apart(self) -> bool:
        return self.kind == "uncorrelated"

    def rungs(self) -> tuple[float, ...]:
        """The levels up to that of this release: noise is a sum over them."""
        return (*(level for level in self.ladder if level < self.alpha), self.alpha)

    def steps(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{"from": low, "to": high} for low, high in pairwise((0.0, *self.rungs()))]
        return found + ([{"undrawn": f"divided by the root of 1 + {self.alpha!r}"}] if self.kind == "linear" else [])

    @model_validator(mode="after")
    def _is_a_ladder(self) -> Params:
        if any(low >= high for low, high in pairwise(self.ladder)):
            raise ValueError("the levels of a ladder rise; sort them, and list each once")
        if self.ladder and self.alpha not in self.ladder:
            raise ValueError(f"alpha = {self.alpha:g} is no level of the ladder; take one of its levels, or add it")
        return self

    @model_validator(mode="after")
    def _spreads_of_columns(self) -> Params:
        if self.spread and self.kind != "uncorrelated":
            raise ValueError("'spread' needs kind: uncorrelated; covariances are taken from the columns")
        for name in self.spread:
            if name not in self.columns:
                raise ValueError(f"'spread' names '{name}', which gets no noise; list it in 'columns'")
        return self

    @model_validator(mode="after")
    def _few_columns(self) -> Params:
        if self.kind != "uncorrelated" and len(self.columns) > MOST_TOGETHER:
            raise ValueError(f"covariances of more than {MOST_TOGETHER} columns are not kept; ask for fewer at once")
        return self


uses_secret = True


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "to which no number can be added")
    steps = not_finite(given, params.columns)
    means, spread = given.name("means"), given.name("spread")
    values = {place: double(column(name, "t")) for place, name in enumerate(params.columns)}
    together = params.kind != "uncorrelated"
    if together:
        for name in params.columns:
            missing = exp.select(exp.convert(1)).from_(nest_copy(given.rows, "t")).where(is_null(column(name, "t")))
            steps.append(
                DataCheck(
                    missing,
                    f"'{name}' holds NULLs, covariances need rows without",
                    "fill them, or ask for kind: uncorrelated",
                )
            )
    averages = [alias(exp.Avg(this=value.copy()), f"m{place}") for place, value in values.items()]
    steps.append(Make(means, exp.Select(expressions=averages, from_=exp.From(this=nest_copy(given.rows, "t")))))
    off = {place: minus(value.copy(), exp.column(f"m{place}", table="m")) for place, value in values.items()}
    pairs = [(i, j) for i in values for j in values if (j <= i if together else i == j)]
    squares = [alias(exp.Avg(this=times(off[i].copy(), off[j].copy())), f"s{i}_{j}") for i, j in pairs]
    tree = exp.Select(expressions=squares, from_=exp.From(this=nest_copy(given.rows, "t")))
    steps.append(Make(spread, cross_join(tree, table(means, "m"))))
    steps += _questions(params, given, spread)
    if together:
        roots, exact = cholesky(given.name("factor"), spread, len(values))
        steps += [*roots, *_dependent(params, exact)]
    else:
        exact = given.name("roots")
        own_roots = [
            alias(
                number(params.spread[name]) if name in params.spread else exp.Sqrt(this=exp.column(f"s{i}_{i}")),
                f"l{i}_{i}",
            )
            for i, name in enumerate(params.columns)
        ]
        steps.append(Make(exact, exp.select(*own_roots).from_(table(spread))))
    cells, factors, seeds = given.name("cells"), given.name("factors"), given.name("seeds")
    rungs = (0.0, *params.rungs())
    drawn = [
        (step, j, given.seed(name, step=step))
        for step in range(len(rungs) - 1)
        for j, name in enumerate(params.columns)
    ]
    found = hash_rows(replace(given, seeds=seeds), [label for _, _, label in drawn])
    read = {(step, j): place for place, (step, j, _) in enumerate(drawn)}
    steps.append(Make(cells, exp.select(*_cells(pairs, together)).from_(table(exact))))
    steps.append(Make(factors, exp.select(*_factors(pairs)).from_(table(cells))))
    owners = [j for _, j, _ in drawn]
    steps.append(Make(seeds, _seeds(given, cells, found.labels, [pairs if together else [(j, j)] for j in owners])))
    changes = {}
    for place, name in enumerate(params.columns):
        own = [j for j in values if (j <= place if together else j == place)]
        parts: list[exp.Expr] = []
        for step, (low, high) in enumerate(pairwise(rungs)):
            normals = {j: normal(given, "t", read[step, j]) for j in own}
            noise = plus(*(times(exp.column(f"l{place}_{j}", table="f"), normals[j]) for j in own))
            parts.append(times(number((high - low) ** 0.5), noise))
        noisy = plus(values[place].copy(), *parts)
        if params.kind == "linear":
            mean = exp.column(f"m{place}", table="m")
            noisy = plus(mean, over(minus(noisy, mean.copy()), number((1 + params.alpha) ** 0.5)))
        changes[name] = back(noisy, given.columns[name], params.decimals)
    tree = select_rows(given, changes, found.rows.subquery(alias="t"))
    steps += found.steps
    return Changed(cross_join(tree, table(factors, "f"), table(means, "m")), steps, found.labels)


def read_scales(
    params: Params, ask: Callable[[exp.Query], Sequence[Sequence[Any]]], prefix: str
) -> dict[str, list[int]]:
    """The steps that the scale of each column is at, and its shares; with covariances those of all columns together."""
    together = params.kind != "uncorrelated"
    count = range(len(params.columns))
    pairs = [(i, j) for i in count for j in count if (j <= i if together else i == j)]
    names = [[f"c{i}", f"r{i}_{j}"] if i == j else [f"r{i}_{j}"] for i, j in pairs]
    chosen = [exp.column(name) for listed in names for name in listed]
    (found,) = ask(exp.Select(expressions=chosen, from_=exp.From(this=table(f"{prefix}_cells"))))
    cells = [int(value) for value in found]
    if together:
        return dict.fromkeys(params.columns, cells)
    return {name: cells[2 * place : 2 * place + 2] for place, name in enumerate(params.columns)}


def spread_at(step: int) -> float:
    """The standard deviation of a step.

    >>> spread_at(320)
    1024.0
    """
    return float(2.0 ** (step / STEPS))


def _cells(pairs: list[tuple[int, int]], together: bool) -> list[exp.Expr]:
    """Integers: the step of each standard deviation, c0, c1, …, and the shares of it, r0_0, r1_0, r1_1, …"""
    chosen: list[exp.Expr] = []
    for i, j in pairs:
        spread = exp.Sqrt(this=exp.column(f"v{i}")) if together else exp.column(f"l{i}_{i}")
        if i == j:
            steps = times(over(exp.Ln(this=spread.copy()), number(math.log(2))), number(float(STEPS)))
            chosen.append(alias(_nearest(steps), f"c{i}"))
        share = _nearest(times(over(exp.column(f"l{i}_{j}"), spread), number(float(SHARES))))
        chosen.append(alias(exp.Greatest(this=share, expressions=[exp.convert(1)]) if i == j else share, f"r{i}_{j}"))
    return chosen


def _nearest(value: exp.Expr) -> exp.Expr:
    return bigint(exp.Floor(this=plus(value, number(0.5))))


def _factors(pairs: list[tuple[int, int]]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for i, j in pairs:
        spread = exp.Exp(this=times(double(exp.column(f"c{i}")), number(math.log(2) / STEPS)))
        found.append(alias(times(spread, over(double(exp.column(f"r{i}_{j}")), number(float(SHARES)))), f"l{i}_{j}"))
    return found


def _seeds(given: Given, cells: str, labels: Sequence[str], read: Sequence[list[tuple[int, int]]]) -> exp.Query:
    """(label, seed): what a seed was, hashed together with the scales that its draws are multiplied by."""
    trees: list[exp.Query] = []
    for label, pairs in zip(labels, read, strict=True):
        parts: list[exp.Expr] = [exp.column("seed", table="s")]
        for i, j in pairs:
            parts += [
                text(exp.column(f"c{i}", table="c")),
                string(","),
                text(exp.column(f"r{i}_{j}", table="c")),
                string(";"),
            ]
        seed = concatenate([exp.MD5(this=concatenate(parts)), string(":")])
        chosen = [alias(exp.Cast(this=string(label), to=TEXT.copy()), "label"), alias(seed, "seed")]
        tree = exp.Select(expressions=chosen, from_=exp.From(this=seed_row(given.seeds, label, "s")))
        trees.append(cross_join(tree, table(cells, "c")))
    return exp.union(*trees, distinct=False, copy=False) if len(trees) > 1 else trees[0]


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
            DataCheck(
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
            DataCheck(
                exp.select(exp.convert(1)).from_(table(factors)).where(told),
                f"'{name}' is a linear function of the columns before it",
                "take it out, and compute it from the others afterwards",
            )
        )
    return found
