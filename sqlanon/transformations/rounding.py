"""Numbers are rounded to multiples of a base: 41,377 becomes 41,000.

    transformations:
      - rounding: {columns: [income], base: 1000}

With `random: true` a number goes to the multiple below or above it by chance, the nearer one more often, so that sums
are right on average (unbiased random rounding); each row has its own draw, which is the same in every release. A value
that is a multiple already stays. NULL stays NULL. Numbers of more than 15 digits keep 15 of them.

What it does not protect: a rounded value is still close to the true one, and a rare one is still rare. An
attacker who knows a value knows which multiple to look for.
cite: Willenborg and de Waal 2001, Elements of Statistical Disclosure Control, 5.2
"""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field, field_validator
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.sqltree.draws import INTEGERS, nest_copy, number, over, plus, scale_of, times
from sqlanon.sqltree.tree import column, double
from sqlanon.transformations import Changed, Given
from sqlanon.transformations._draws import Hashed, draw, hash_rows
from sqlanon.transformations._params import Base, Columns, Number
from sqlanon.transformations._rows import require, select_rows

MOST_DECIMALS = 6


class Params(Base):
    columns: Columns = Field(description="Numeric columns.")
    base: Number = Field(gt=0, description="Values become multiples of it.")
    random: bool = Field(False, strict=True, description="Round up or down by chance, right on average.")

    @field_validator("base")
    @classmethod
    def _few_decimals(cls, base: float) -> float:
        if _decimals(base) > MOST_DECIMALS:
            raise ValueError(f"{base:g} has too many decimals; use at most {MOST_DECIMALS}")
        return base


def uses_secret(params: Params) -> bool:
    return params.random


def _decimals(base: float) -> int:
    exponent = Decimal(repr(base)).normalize().as_tuple().exponent
    return max(0, -int(exponent))


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "which cannot be rounded")
    places = _decimals(params.base)
    steps = round(params.base * 10**places)
    for name in params.columns:
        kind = given.columns[name]
        most = 0 if kind.this in INTEGERS else scale_of(kind)
        if most is not None and places > most:
            raise PolicyError(
                f"'{name}' is of type {kind.sql().lower()}, whose values are no multiples of {params.base:g}",
                hint=f"take a base of at most {most} decimals" if most else "take a whole number as the base",
            )
    changes = {}
    found = (
        hash_rows(given, [given.seed(name) for name in params.columns]) if params.random else Hashed(given.rows, [], [])
    )
    for place, name in enumerate(params.columns):
        half: exp.Expr = number(0.5)
        if params.random:
            half = draw(given, "t", place)
        ratio = over(times(double(column(name, "t")), number(float(10**places))), number(float(steps)))
        # Multiplied first and divided last, so that 3 * 0.1 is 0.3.
        whole = times(exp.Floor(this=plus(ratio, half)), number(float(steps)))
        changes[name] = exp.Cast(this=over(whole, number(float(10**places))), to=given.columns[name].copy())
    return Changed(select_rows(given, changes, nest_copy(found.rows, "t")), found.steps, found.labels)
