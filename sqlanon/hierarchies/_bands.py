"""Bands of numbers: the SQL that `intervals` and `age` share.

A number is compared with the edges of a band in its own type, so that no rounding moves it across one. A
floating-point number counts as the decimal that it is printed as: 0.3 lies in [0.3, 0.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from sqlglot import exp

from sqlanon.hierarchies import Level
from sqlanon.sqltree.labels import call, join_text, minus, number, plain, string, text

# Every decimal of this many digits survives in a floating-point number. What lies beyond shares one label.
EXACT_DIGITS = 15
NOT_A_NUMBER = "not a number"


@dataclass(frozen=True)
class Scale:
    """The numbers that are told apart: from `low` up to `high`, in steps of `decimals` decimal places."""

    low: Decimal
    high: Decimal
    decimals: int
    origin: Decimal = Decimal(0)


def limit(decimals: int) -> int:
    """From here on numbers are not told apart."""
    return int(10 ** (EXACT_DIGITS - decimals))


def decimals(numbers: Iterable[Decimal]) -> int:
    """How many decimal places are needed to write all of these.

    >>> decimals([Decimal("0.250"), Decimal(10)])
    2
    """
    return max(len(plain(value).partition(".")[2]) for value in numbers)


def band(scale: Scale, width: Decimal, *, clip: bool = False) -> Level:
    """The label "[lo, hi)" of the band that a number lies in; `clip` cuts the last band at the top."""

    def label(column: exp.Expr) -> exp.Expr:
        floor = _floor(column, scale.decimals)
        lower = minus(floor, _offset(floor, scale, width))
        upper = exp.Add(this=lower.copy(), expression=number(width))
        top = call("LEAST", upper, number(scale.high)) if clip else upper
        inside = join_text("[", _printed(lower, scale), ", ", _printed(top, scale), ")")
        return _outside(column, floor, scale).else_(inside)

    return label


def _floor(column: exp.Expr, decimals: int) -> exp.Expr:
    """The largest decimal with so many places that is not above the number."""
    if decimals == 0:
        return exp.cast(call("FLOOR", column), "BIGINT")
    step = Decimal(1).scaleb(-decimals)
    # The cast rounds to the nearest, which may lie above the number: then step down.
    nearest = exp.cast(column, f"DECIMAL(18, {decimals})")
    return minus(nearest, exp.case().when(nearest > column, number(step)).else_(number(0)))


def _offset(floor: exp.Expr, scale: Scale, width: Decimal) -> exp.Expr:
    """How far a number lies above the lower edge of its band."""
    # The remainder of a negative number is negative: first move all numbers up, by a multiple of the width.
    steps = max(Decimal(0), (scale.origin - scale.low) / width).to_integral_value(ROUND_CEILING)
    shift = steps * width - scale.origin
    return (floor + number(shift) if shift else floor) % number(width)


def _outside(column: exp.Expr, floor: exp.Expr, scale: Scale) -> exp.Case:
    """The labels of what lies in no band; first come those whose cast in `floor` would fail."""
    below, above = string(f"<{plain(scale.low)}"), string(f">={plain(scale.high)}")
    # Infinity less infinity is NaN, and NaN differs from 0; for a finite number of any type it is 0.
    labels = exp.case().when(minus(column, column).neq(number(0)), string(NOT_A_NUMBER))
    # FLOOR leaves a comparison with a whole number as it is, and widens DuckDB's DECIMAL(38, 30) for it.
    whole = call("FLOOR", column)
    far = limit(scale.decimals)
    if scale.decimals == 0:
        return labels.when(whole < number(scale.low), below).when(whole >= number(scale.high), above)
    labels = labels.when(whole < number(-far), below).when(whole >= number(far), above)
    if scale.low > -far:
        labels = labels.when(floor < number(scale.low), below)
    if scale.high < far:
        labels = labels.when(floor >= number(scale.high), above)
    return labels


def _printed(value: exp.Expr, scale: Scale) -> exp.Expr:
    """A number as text, without trailing zeros."""
    if scale.decimals == 0:
        return text(value)
    zeros = exp.Trim(this=text(value), expression=string("0"), position="TRAILING")
    return exp.Trim(this=zeros, expression=string("."), position="TRAILING")
