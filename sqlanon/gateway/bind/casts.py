"""Casts: those that cannot fail on any row, and those of literals, whose text tells whether they can."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.functions import round_value, text_of, written_length
from sqlanon.gateway.bind.parameters import EXAMPLES
from sqlanon.gateway.bind.scalars import (
    Scope,
    bind,
    date_literal,
    derive_value,
    number_value,
    only,
    read_as,
    refusal,
    rule,
    temporal,
)
from sqlanon.gateway.bind.type_names import CAST_KINDS, MOMENTS, REAL, TEXT, TYPE_NAMES, WHOLE, Type
from sqlanon.gateway.bind.values import NUMBERS, TIMES, Interval, Kind, Value, clamp_time, double, number, operand

MOST = 10_000  # characters of a text, digits of a number
DIGITS = 10  # of a fraction, from which on nothing is rounded
MOST_DECIMAL = 38  # digits of DuckDB's DECIMAL
MICROSECONDS = 6  # digits of a second, which every timestamp has


def _literal_cast(node: exp.Expr, value: Value, wanted: Kind | None, zoned: bool = False) -> Value | None:
    """A literal as a literal of another kind, if it is one, and that can be told from its text."""
    literal, made_of = value.literal, None
    if wanted is None or literal is None:
        return None
    if isinstance(literal, str) and wanted in TIMES:
        if value.slot is not None and value.slot.value is None:
            literal = EXAMPLES[wanted].isoformat()
        made_of = temporal(node, literal, wanted, zoned=zoned)
        if wanted == "date" and isinstance(made_of.literal, datetime):
            made_of = date_literal(made_of.literal.date())
        elif wanted == "timestamp" and not isinstance(made_of.literal, datetime):
            made_of = replace(date_literal(datetime.combine(made_of.literal, datetime.min.time())), zoned=made_of.zoned)
    elif isinstance(literal, str) and wanted in (*NUMBERS, "bool"):
        if value.slot is not None and value.slot.value is None:
            literal = str(EXAMPLES[wanted])
        made_of = read_as(node, literal, wanted)
    elif value.kind == "int" and wanted == "float":
        made_of = number_value(float(literal), "float")
    elif value.kind == wanted:
        made_of = value
    return replace(made_of, slot=value.slot) if made_of is not None else None


def _sizes(node: exp.Expr, to: exp.Expr, dialect: str) -> list[int]:
    """The lengths of a type: VARCHAR(2) cuts, and DECIMAL(9, 2) rounds."""
    found = []
    for each in to.expressions:
        text = each.this.name if type(each) is exp.DataTypeParam and type(each.this) is exp.Literal else ""
        if not text.isdigit() or int(text) > MOST:
            raise refusal(node, "a length of a type is a whole number", sqlstate="42601")
        found.append(int(text))
    read = 2 if to.this == Type.DECIMAL else int(to.this in REAL or to.this in TEXT or found == [MICROSECONDS])
    if len(found) > read:
        raise refusal(node, f"a cast to {to.sql(dialect)} is not answered", hint="leave the length out")
    return found


@rule(exp.Cast, exp.TryCast)
def _cast(node: exp.Cast, scope: Scope) -> Value:
    only(node, "this", "to", "safe", "_type")
    to = node.args["to"]
    value = bind(node.this, scope)
    target = to.this
    wanted = CAST_KINDS.get(target)
    if wanted is not None:
        value.must_be(wanted)
    literal = _literal_cast(node, value, wanted, target == Type.TIMESTAMPTZ)
    if literal is not None and not to.expressions:
        return _told(literal, target, [], scope)
    sizes = _sizes(node, to, scope.dialect)
    return _told(_converted(node, value, to, sizes, scope), target, sizes, scope)


def _told(value: Value, target: Any, sizes: list[int], scope: Scope) -> Value:
    """The same with the type that a client sees: int4 and not int8, where the statement asks for int4."""
    name = TYPE_NAMES.get(target)
    if name in ("int2", "int4", "float4"):
        return replace(value, stored=name)
    if name == "varchar" and scope.dialect == "postgres" and value.literal is None:
        return replace(value, stored=f"varchar({sizes[0]})" if sizes else "varchar")
    if name == "numeric" and value.public and value.literal is None and sizes and sizes[0] <= MOST_DECIMAL:
        size = f"({sizes[0]},{(*sizes, 0)[1]})"
        held = exp.Cast(this=value.tree.copy(), to=exp.DataType.build(f"DECIMAL{size}"))
        return replace(value, stored=f"numeric{size}", plain=held)
    return value


def _converted(node: exp.Cast, value: Value, to: exp.Expr, sizes: list[int], scope: Scope) -> Value:
    target = to.this
    if target in WHOLE and value.kind in NUMBERS and value.bounds is not None:
        whole = exp.Floor(this=exp.Add(this=operand(value), expression=number(0.5)))
        return derive_value(whole, "int", [value], Interval(value.bounds.low - 0.5, value.bounds.high + 0.5))
    if target in WHOLE and value.kind == "bool":
        cases = exp.Case().when(value.tree.copy(), number(1), copy=False)
        cases = cases.when(exp.Not(this=exp.Paren(this=value.tree.copy())), number(0), copy=False)
        return derive_value(double(cases), "int", [value], Interval(0, 1))
    if target in REAL and value.kind in NUMBERS and value.bounds is not None:
        digits = (*sizes, 0)[1] if sizes and target == Type.DECIMAL else DIGITS
        # A double has not many more digits than these.
        return (
            round_value(value, digits, "float")
            if digits < DIGITS
            else derive_value(operand(value), "float", [value], value.bounds)
        )
    tree = text_of(value) if target in TEXT else None
    if tree is not None:
        if sizes and scope.dialect == "postgres":  # DuckDB takes no notice of a length
            tree = exp.Left(this=tree, expression=number(sizes[0]))
        long = written_length(value)
        return derive_value(tree, "text", [value], keys=None, size=long, looks=long)
    if target == Type.DATE and value.kind in TIMES:
        day = derive_value(exp.cast(clamp_time(value.tree), Type.DATE), "date", [value])
        return replace(day, bounds=value.bounds)  # in days, to which times are held wherever they are counted
    if target in MOMENTS and value.kind in TIMES:
        return derive_value(exp.cast(clamp_time(value.tree), Type.TIMESTAMP), "timestamp", [value])
    if target == Type.TIMESTAMPTZ and value.kind in TIMES:
        moment = derive_value(exp.cast(clamp_time(value.tree), Type.TIMESTAMP), "timestamp", [value])
        return replace(moment, zoned=True)
    if target == Type.BOOLEAN and value.kind == "bool":
        return value
    raise refusal(
        node,
        f"a cast of {value.kind} to {to.sql(scope.dialect)} is not answered",
        detail="It could fail on a row, and a failure would reveal something about the data.",
    )
