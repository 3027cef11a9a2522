"""Values are kept with one probability, and otherwise replaced by any value of the domain (randomized response).

    transformations:
      - random_replacement: {columns: [disease], retention: 0.3, rho1: 0.1, rho2: 0.5}

The new value is drawn evenly from `domain`, or from the values that occur in the column; it may be the old one. With
`rho1` and `rho2` it is refused unless nobody whose suspicion was at most rho1 can become sure to rho2 or more: for D
values, (p + (1 - p) / D) / ((1 - p) / D) must be less than rho2 (1 - rho1) / (rho1 (1 - rho2)). NULL stays NULL. Each
row has its own draw, which is the same in every release.

What it does not protect: other columns, by which a person may be known; and a person with several rows, each of which
is drawn by itself. Without `rho1` and `rho2` nothing is promised. A domain that is taken from the data is itself told.
cite: Warner 1965; Agrawal, Srikant and Thomas 2005; Evfimievski, Gehrke and Srikant 2003 (amplification)
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field, field_validator, model_validator
from sqlglot import exp

from sqlanon.sqltree.draws import (
    alias,
    cross_join,
    digest,
    is_null,
    nest_copy,
    number,
    over,
    plus,
    seed_row,
    times,
    uniform,
)
from sqlanon.sqltree.tree import BIGINT, TEXT, bigint, case, column, double, table
from sqlanon.transformations import KEY, Changed, DataCheck, Given, Make, Step
from sqlanon.transformations._lookup import Label, forbid_unlisted, inline_rows, marginals, require_categories
from sqlanon.transformations._params import Base, Columns, Share
from sqlanon.transformations._rows import select_rows

DRAW = "\u2205 draw"
OTHER = "\u2205 other"


class Params(Base):
    UNDRAWN = frozenset({"rho1", "rho2"})

    columns: Columns = Field(description="Columns of categories: text, integers, booleans or dates.")
    retention: Share = Field(description="Probability that a value is kept, between 0 and 1.")
    domain: tuple[Label, ...] | None = Field(
        None, description="What may take its place; the values of the column if left out."
    )
    rho1: Share | None = Field(None, description="What an attacker may have guessed before, as a probability.")
    rho2: Share | None = Field(None, description="How sure the attacker must not become.")

    @field_validator("domain")
    @classmethod
    def _has_two(cls, domain: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if domain is not None and len(set(domain)) < 2:
            raise ValueError("a domain has at least two values")
        if domain is not None and len(set(domain)) < len(domain):
            raise ValueError("a value is there twice; keep one")
        return domain

    @model_validator(mode="after")
    def _is_private(self) -> Params:
        if (self.rho1 is None) != (self.rho2 is None):
            raise ValueError("'rho1' and 'rho2' belong together; give both")
        if self.rho1 is not None and self.rho2 is not None:
            if self.rho2 <= self.rho1:
                raise ValueError("'rho2' must be greater than 'rho1'")
            if self.domain is not None and amplification(self.retention, len(self.domain)) >= self.limit():
                raise ValueError(
                    f"a retention of {self.retention:g} over {len(self.domain)} values lets an attacker go from"
                    f" {self.rho1:g} to {self.rho2:g}; keep fewer values, or accept a larger rho2"
                )
        return self

    def limit(self) -> float:
        assert self.rho1 is not None and self.rho2 is not None
        return self.rho2 * (1 - self.rho1) / (self.rho1 * (1 - self.rho2))


uses_secret = True


def amplification(retention: float, values: int) -> float:
    """How many times likelier a result is from one value than from another.

    >>> round(amplification(0.2, 10), 9)
    3.5
    """
    other = (1 - retention) / values
    return (retention + other) / other


def change(params: Params, given: Given) -> Changed:
    require_categories(given, params.columns)
    steps: list[Step] = []
    labels: list[str] = []
    for place, name in enumerate(params.columns, start=1):
        prefix = given.name(f"column_{place}")
        counts, domain, size = f"{prefix}_counts", f"{prefix}_domain", f"{prefix}_size"
        steps += [marginals(given, name, counts), *_domain(params, name, counts, domain)]
        whole = alias(exp.Count(this=exp.Star()), "n")
        steps.append(Make(size, exp.select(whole).from_(table(domain))))
        steps += _questions(params, name, size)
        label = given.seed(name)
        rows = _drawn(given, label).subquery(alias="t")
        kept = exp.Or(
            this=exp.LT(this=column(DRAW, "t"), expression=number(params.retention)),
            expression=is_null(column(name, "t")),
        )
        other = exp.Cast(this=exp.column("value", table="d"), to=given.columns[name].copy())
        tree = select_rows(given, {name: case((kept, column(name, "t")), default=other)}, rows)
        tree = cross_join(tree, table(size, "z"))
        at = bigint(exp.Floor(this=times(column(OTHER, "t"), double(exp.column("n", table="z")))))
        tree.append("joins", exp.Join(this=table(domain, "d"), side="LEFT", on=exp.column("place", table="d").eq(at)))
        labels.append(label)
        given = replace(given, rows=tree)
    return Changed(given.rows, steps, labels)


def _drawn(given: Given, label: str) -> exp.Select:
    """The rows with two draws of 48 bits, for a domain of many values."""
    hashed = digest(given.dialect, "s", column(KEY, "r"))
    draws = [alias(uniform(given.dialect, hashed.copy(), part), name) for part, name in enumerate([DRAW, OTHER])]
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("r"))
    tree = exp.Select(expressions=[every, *draws], from_=exp.From(this=nest_copy(given.rows, "r")))
    return cross_join(tree, seed_row(given.seeds, label, "s"))


def _domain(params: Params, name: str, counts: str, made: str) -> list[Step]:
    if params.domain is not None:
        rows = list(enumerate(params.domain))
        written = inline_rows(rows, ["place", "value"], [BIGINT, TEXT])
        return [forbid_unlisted(counts, params.domain, name, "the domain"), Make(made, written)]
    # In the order of a hash: engines sort text differently.
    order = exp.Order(
        expressions=[exp.Ordered(this=exp.MD5(this=exp.column("value"))), exp.Ordered(this=exp.column("value"))]
    )
    place = exp.Sub(this=exp.Window(this=exp.RowNumber(), order=order), expression=exp.convert(1))
    return [
        Make(made, exp.select(alias(bigint(exp.Paren(this=place)), "place"), exp.column("value")).from_(table(counts)))
    ]


def _questions(params: Params, name: str, size: str) -> list[Step]:
    n = double(exp.column("n"))
    ask = exp.select(exp.convert(1)).from_(table(size))
    found: list[Step] = [
        DataCheck(
            ask.where(exp.LT(this=n, expression=number(2.0))),
            f"'{name}' has fewer than two values",
            "take it out, or give a 'domain'",
        )
    ]
    if params.rho1 is not None and params.domain is None:
        ratio = plus(number(1.0), over(times(number(params.retention), n.copy()), number(1 - params.retention)))
        found.append(
            DataCheck(
                ask.where(exp.GTE(this=ratio, expression=number(params.limit()))),
                f"a retention of {params.retention:g} over all of '{name}' lets an attacker go from rho1 to rho2",
                "keep fewer values, or accept a larger rho2",
            )
        )
    return found
