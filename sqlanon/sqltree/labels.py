"""SQL of labels: the few shapes that computed hierarchies are made of; all copy what they are given."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from sqlglot import exp


def text(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, "TEXT")


def string(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def number(value: int | Decimal) -> exp.Expr:
    """A number without trailing zeros, since an engine reads `5.0` as another type than `5`.

    >>> number(Decimal("-5.00")).sql(), number(Decimal("1E+3")).sql()
    ('-5', '1000')
    """
    literal = exp.Literal.number(plain(value).removeprefix("-"))
    return exp.Neg(this=literal) if value < 0 else literal


def plain(value: int | Decimal) -> str:
    """A number as a person writes it.

    >>> plain(Decimal("30.50")), plain(Decimal("-0")), plain(10)
    ('30.5', '0', '10')
    """
    digits = format(Decimal(value) + 0, "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def call(name: str, *arguments: exp.Expr | int | str) -> exp.Expr:
    """A function call; Python numbers and text stand for literals.

    >>> call("SPLIT_PART", exp.column("x"), ".", 2).sql("duckdb")
    "SPLIT_PART(x, '.', 2)"
    """
    given = (value if isinstance(value, exp.Expr) else exp.convert(value) for value in arguments)
    return cast(exp.Expr, exp.func(name, *given))


def minus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """A difference; sqlglot's own operator writes a - (b - c) without the parentheses.

    >>> minus(exp.column("a"), exp.column("b") - exp.column("c")).sql()
    'a - (b - c)'
    """
    return exp.Sub(this=left.copy(), expression=exp.paren(right) if isinstance(right, exp.Binary) else right.copy())


def join_text(*parts: exp.Expr | str) -> exp.Expr:
    """Text put together with `||`: unlike CONCAT, it gives NULL if any part is NULL.

    >>> join_text("[", exp.column("lo"), ")").sql()
    "'[' || lo || ')'"
    """
    pieces = [string(part) if isinstance(part, str) else part.copy() for part in parts]
    result = pieces[0]
    for piece in pieces[1:]:
        result = exp.DPipe(this=result, expression=piece, safe=True)
    return result
