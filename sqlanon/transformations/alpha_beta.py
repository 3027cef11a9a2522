"""Some records are left out, and counterfeit ones are added, so that nobody knows whether a record is real.

    transformations:
      - alpha_beta: {columns: [age, sex, disease], alpha: 0.4, beta: 0.1, d: 0.1, gamma: 0.5,
                     domain: {age: {low: 0, high: 99}}}

A record is a combination of the values of `columns`; rows that are equal in them are one record, and all other columns
are left empty. Each record of the table is kept with the probability alpha + beta, each other combination of the values
of the `domain` is added with the probability beta. What is not given of the domain is what the table holds of a column.

This is (d,gamma)-privacy: an attacker who believes in a record with a probability of at most d, and in each by itself,
believes in it with gamma at most when it is published, and with d/gamma of that at least when it is not. It holds if
alpha/beta ≤ (gamma - d)/(d·(1 - gamma)) and (1 - alpha - beta)/(1 - beta) ≥ d/gamma; otherwise the policy is refused.
From n published records, (n - beta·D)/alpha is an estimate of how many there are, if the domain has D combinations.

What it does not protect: records that somebody believes in with more than d, or together with others; and values of
which no domain is given: that they occur is told. The same key gives the same draws in every release, so that only a
record that came or went changes what is published, which may tell that it did.
cite: Rastogi, Suciu and Hong 2007, The boundary between privacy and utility in data publishing
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.sqltree.draws import (
    INTEGERS,
    alias,
    canonical,
    concatenate,
    cross_join,
    digest,
    is_known,
    is_null,
    nest_copy,
    number,
    seed_row,
    string,
    times,
    uniform,
)
from sqlanon.sqltree.tree import TEXT, case, column, double, table, text
from sqlanon.transformations import KEY, ROW, Changed, DataCheck, Given, Make, Step
from sqlanon.transformations._lookup import Label, inline_rows, require_categories
from sqlanon.transformations._params import Base, Columns, Share

MOST_COMBINATIONS = 20_000_000
MOST_VALUES = 100_000


class Range(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    low: int = Field(strict=True)
    high: int = Field(strict=True)


class Params(Base):
    UNDRAWN = frozenset({"d", "gamma"})

    columns: Columns = Field(description="Columns that make a record; all others are left empty.")
    alpha: Share = Field(description="How much likelier a record of the table is to be published than any other.")
    beta: Share = Field(description="Probability with which a combination that is no record is published.")
    d: Share = Field(description="What an attacker believes in with this probability at most is protected.")
    gamma: Share = Field(description="The probability with which it is believed in afterwards, at most.")
    domain: dict[str, Range | Annotated[tuple[Label, ...], Field(min_length=1)]] = Field(
        default_factory=dict, description="All values of a column: a list, or {low: 0, high: 99}."
    )

    def apart(self) -> bool:
        return False

    @model_validator(mode="after")
    def _is_private(self) -> Params:
        if self.d >= self.gamma:
            raise ValueError(f"gamma must be greater than d, and {self.gamma:g} is not")
        largest = largest_alpha(self.beta, self.d, self.gamma)
        if self.alpha > largest + 1e-12:
            raise ValueError(
                f"alpha = {self.alpha:g} is too much for ({self.d:g},{self.gamma:g})-privacy:"
                f" beside beta = {self.beta:g} it may be {largest:.4g}"
            )
        for name, values in self.domain.items():
            if name not in self.columns:
                raise ValueError(f"the domain of '{name}' is given, which is none of the columns")
            if isinstance(values, Range) and not 0 <= values.high - values.low < MOST_VALUES:
                raise ValueError(f"the domain of '{name}' must have between 1 and {MOST_VALUES:,} values")
        return self


uses_secret = True
CHANGES_ROWS = True
NEW_ROWS = True  # with identities of their own


def largest_alpha(beta: float, d: float, gamma: float) -> float:
    """The largest alpha that both conditions of (d,gamma)-privacy allow.

    >>> round(largest_alpha(0.1, 0.1, 0.5), 9)
    0.72
    """
    return min(beta * (gamma - d) / (d * (1 - gamma)), (1 - beta) * (1 - d / gamma))


def change(params: Params, given: Given) -> Changed:
    if given.person is not None:
        raise PolicyError("a counterfeit record belongs to nobody, and the policy counts persons", hint="count rows")
    require_categories(given, params.columns)
    steps: list[Step] = []
    records = given.name("records")
    chosen = [column(name) for name in params.columns]
    steps.append(
        Make(
            records,
            exp.select(*chosen, alias(_key(params.columns, given), KEY)).from_(nest_copy(given.rows, "t")).distinct(),
        )
    )
    domains = []
    for place, name in enumerate(params.columns, start=1):
        domain = given.name(f"domain_{place}")
        steps += _domain(params, given, name, records, domain)
        domains.append(domain)
    sizes = [exp.select(alias(double(exp.Count(this=exp.Star())), "n")).from_(table(name)) for name in domains]
    size = times(*(exp.column("n", table=f"z{place}") for place in range(len(sizes))))
    asked = exp.select(exp.convert(1)).from_(nest_copy(sizes[0], "z0"))
    asked = cross_join(asked, *(nest_copy(tree, f"z{place}") for place, tree in enumerate(sizes[1:], start=1)))
    steps.append(
        DataCheck(
            asked.where(exp.GT(this=size, expression=number(float(MOST_COMBINATIONS)))),
            f"the domain has more than {MOST_COMBINATIONS:,} combinations",
            "take fewer columns, or round and code them first",
        )
    )
    label = given.seed("records")
    whole = given.name("combinations")
    product = exp.select(
        *(alias(exp.column("value", table=f"d{place}"), name) for place, name in enumerate(params.columns))
    )
    product = cross_join(
        product.from_(table(domains[0], "d0")), *(table(name, f"d{place}") for place, name in enumerate(domains[1:], 1))
    )
    steps.append(
        Make(
            whole,
            exp.select(*(item.copy() for item in chosen), alias(_key(params.columns, given), KEY)).from_(
                nest_copy(product, "p")
            ),
        )
    )
    draw = uniform(given.dialect, digest(given.dialect, "s", column(KEY, "w")))
    real = is_known(column(KEY, "i"))
    share = case((real, number(params.alpha + params.beta)), default=number(params.beta))
    tree = exp.Select(
        expressions=[
            alias(exp.Window(this=exp.RowNumber()), ROW),
            column(KEY, "w"),
            *(
                column(name, "w") if name in params.columns else alias(exp.Cast(this=exp.Null(), to=kind.copy()), name)
                for name, kind in given.columns.items()
            ),
        ],
        from_=exp.From(this=table(whole, "w")),
    )
    tree.append("joins", exp.Join(this=table(records, "i"), side="LEFT", on=column(KEY, "i").eq(column(KEY, "w"))))
    tree = cross_join(tree, seed_row(given.seeds, label, "s")).where(exp.LT(this=draw, expression=share))
    return Changed(tree, steps, [label])


def _key(names: Sequence[str], given: Given) -> exp.Expr:
    """A record as text, which is the same on every engine."""
    parts: list[exp.Expr] = []
    for name in names:
        parts += [canonical(name, given.columns[name]), string("|")]
    return concatenate(parts)


def _domain(params: Params, given: Given, name: str, records: str, made: str) -> list[Step]:
    """value: the values of a column, given or found."""
    own = params.domain.get(name)
    kind = given.columns[name]
    if own is None:
        found = exp.select(alias(column(name), "value")).from_(table(records)).distinct()
        return [Make(made, found)]
    if isinstance(own, Range) and kind.this not in INTEGERS:
        raise PolicyError(
            f"'{name}' is of type {kind.sql().lower()}, and a range is of integers", hint="list its values"
        )
    values = (
        [str(item) for item in range(own.low, own.high + 1)] if isinstance(own, Range) else list(dict.fromkeys(own))
    )
    rows = inline_rows([(item,) for item in values], ["value"], [TEXT])
    typed = exp.select(alias(exp.Cast(this=exp.column("value"), to=kind.copy()), "value")).from_(nest_copy(rows, "l"))
    known = exp.select(text(exp.column("value"))).from_(table(made))
    outside = exp.or_(is_null(column(name)), text(column(name)).isin(query=known).not_())
    asked = exp.select(exp.convert(1)).from_(table(records)).where(outside)
    hint = "list all values of the column; NULL cannot be listed: fill it first"
    return [Make(made, typed), DataCheck(asked, f"'{name}' holds values that are not in the domain", hint)]
