"""An expression whose type is known: its tree for DuckDB, its type and name as PostgreSQL gives them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.pgcatalog.kinds import OIDS, UNKNOWN, duck_type
from sqlanon.pgwire.codecs.intervals import parts, write
from sqlanon.pgwire.types import PgType

MOST_DIGITS = 38  # of a number in DuckDB
# Errors that functions and generated SQL raise on purpose: this, an SQLSTATE, and a message of our own.
MARK = "sqlanon-error "
# Trees that stay one operand, whatever stands beside them.
OPERANDS = (
    exp.Column, exp.Literal, exp.Anonymous, exp.Cast, exp.Paren, exp.Boolean, exp.Null, exp.Subquery, exp.Array,
    exp.Exists,
)  # fmt: skip


class RuntimeValue:
    """Stands for a value that is known only when the statement runs."""


MISSING = RuntimeValue()
NO_NAME = "?column?"


@dataclass(frozen=True)
class Bound:
    """`value` is that of a constant. `parameter` is set as long as the type of a parameter is not known.

    PostgreSQL names a result column after what it is made of; `weight` tells how sure the name is: 0 a stopgap,
    1 a type or CASE, which a column or function below it wins over, 2 a column or function.
    """

    tree: exp.Expr
    type: PgType
    name: str = NO_NAME
    weight: int = 0
    value: Any = MISSING
    parameter: int = 0
    typmod: int = -1
    origin: tuple[int, int] = (0, 0)  # oid of the relation and number of the column
    fields: Mapping[str, PgType] | None = None  # of a record

    @property
    def constant(self) -> bool:
        return self.value is not MISSING

    @property
    def unknown(self) -> bool:
        return self.type.oid == UNKNOWN.oid

    def named(self, name: str, weight: int = 2) -> Bound:
        return replace(self, name=name, weight=weight)


def call(function: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a function of the metadata database."""
    return exp.Anonymous(this=function, expressions=list(arguments))


def cast(tree: exp.Expr, to: str) -> exp.Expr:
    return exp.Cast(this=tree, to=exp.DataType.build(to, dialect="duckdb"))


def text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def whole(value: int) -> exp.Expr:
    literal = exp.Literal.number(abs(value))
    return literal if value >= 0 else exp.Paren(this=exp.Neg(this=literal))


def constant(value: Any, kind: PgType, **other: Any) -> Bound:
    """A constant of a type."""
    return Bound(_literal(value, kind), kind, value=value, **other)


def _literal(value: Any, kind: PgType) -> exp.Expr:
    if value is None:
        return cast(exp.Null(), duck_type(kind))
    if kind.element is not None:
        return _list(value, kind)
    if kind.name == "bool":
        return exp.Boolean(this=bool(value))
    if kind.name == "numeric":
        return _number(value)
    if kind.name == "bytea":
        return call("unhex", text(bytes(value).hex()))
    if kind.name == "interval":
        return cast(text(write(*parts(value)).replace("mons", "months").replace("mon ", "month ")), "INTERVAL")
    if kind.name in ("int2", "int4", "int8") or kind.name in OIDS:
        return cast(whole(int(value)), duck_type(kind))
    if isinstance(value, dt.date | dt.time):
        return cast(text(value.isoformat()), duck_type(kind))
    if isinstance(value, float | uuid.UUID):
        return cast(text(str(value)), duck_type(kind))
    if isinstance(value, str):
        return text(value) if duck_type(kind) == "VARCHAR" else cast(text(value), duck_type(kind))
    raise Refused(f"a value of type {kind.name} is not answered here", sqlstate="0A000")


def _list(value: Any, kind: PgType) -> exp.Expr:
    assert kind.element is not None
    name = duck_type(kind)
    if is_deep(value):
        # It can be shown, but DuckDB would take its rows for its elements.
        return cast(
            call("error", text(f"{MARK}0A000 arrays of more than one dimension are not computed with here")), name
        )
    if kind.element.name == "numeric":
        scale = max((_scale(item) for item in value if item is not None), default=0)
        name = f"DECIMAL({MOST_DIGITS},{scale})[]"
    return cast(exp.Array(expressions=[_literal(item, kind.element) for item in value]), name)


def is_deep(value: Any) -> bool:
    """Whether a value is an array of more than one dimension: its elements are arrays, and none of them is NULL."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _scale(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent)) if value.is_finite() else 0


def _number(value: Any) -> exp.Expr:
    number = Decimal(value)
    scale = _scale(number)
    if not number.is_finite() or number.adjusted() + 1 + scale > MOST_DIGITS or scale > MOST_DIGITS:
        # It can be shown, as every constant can, but DuckDB cannot compute with it.
        said = f"{MARK}22003 a numeric of more than {MOST_DIGITS} digits is not computed with here"
        return cast(call("error", text(said)), "DECIMAL(38,0)")
    digits = max(number.adjusted() + 1, 1) + scale
    return cast(text(format(number, "f")), f"DECIMAL({min(digits, MOST_DIGITS)},{scale})")


def safe(tree: exp.Expr) -> exp.Expr:
    """A tree that stays one operand, whatever stands beside it."""
    return tree if isinstance(tree, OPERANDS) else exp.Paren(this=tree)


def binary(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return kind(this=safe(left), expression=safe(right))
