"""Functions of a row: numbers, texts and times. Each is total: it has a value, or NULL, for every input."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.conditions import build_comparison
from sqlanon.gateway.bind.core import bytewise, key_tree
from sqlanon.gateway.bind.row_work import LONGEST_TEXT, pattern_looks
from sqlanon.gateway.bind.scalars import (
    Scope,
    bind,
    branch,
    common,
    derive_value,
    numbers,
    only,
    refusal,
    rule,
    spelling,
    truncate_number,
)
from sqlanon.gateway.bind.type_names import Type
from sqlanon.gateway.bind.values import (
    NUMBERS,
    TIMES,
    Interval,
    Kind,
    Value,
    clamp,
    clamp_time,
    double,
    drop_tiny_digits,
    hull,
    number,
    operand,
)

# Parts of a date that a person may ask for, and where they lie.
PARTS = {
    "YEAR": (1, 9999), "QUARTER": (1, 4), "MONTH": (1, 12), "WEEK": (1, 53), "DAY": (1, 31), "DOW": (0, 6),
    "ISODOW": (1, 7), "DOY": (1, 366), "HOUR": (0, 23), "MINUTE": (0, 59),
}  # fmt: skip
SHORT = 64  # more characters than a number, a date or a condition is written with
TRUNCATIONS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")


# ---- numbers


def _monotone(node: Any, scope: Scope, tree: Callable[[exp.Expr], exp.Expr], end: Callable[[float], float]) -> Value:
    value = bind(node.this, scope)
    (bounds,) = numbers(node, value)
    return derive_value(tree(operand(value)), "int", [value], Interval(end(bounds.low), end(bounds.high)))


@rule(exp.Floor)
def _floor(node: exp.Floor, scope: Scope) -> Value:
    only(node, "this")
    return _monotone(node, scope, lambda x: exp.Floor(this=x), lambda x: float(math.floor(x)))


@rule(exp.Ceil)
def _ceil(node: exp.Ceil, scope: Scope) -> Value:
    only(node, "this")
    return _monotone(node, scope, lambda x: exp.Ceil(this=x), lambda x: float(math.ceil(x)))


@rule(exp.Trunc)
def _trunc(node: exp.Trunc, scope: Scope) -> Value:
    only(node, "this")
    return _monotone(node, scope, truncate_number, lambda x: float(math.trunc(x)))


@rule(exp.Round)
def _round(node: exp.Round, scope: Scope) -> Value:
    only(node, "this", "decimals")
    value = bind(node.this, scope)
    numbers(node, value)
    decimals = _whole_literal(node, node.args.get("decimals"), scope, 0, -9, 9)
    # The type of a column may depend on the text of a statement, and not on its parameters.
    given = node.args.get("decimals")
    kind: Kind = "int" if decimals <= 0 and (given is None or bind(given, scope).slot is None) else "float"
    return round_value(value, decimals, kind)


def round_value(value: Value, decimals: int, kind: Kind) -> Value:
    """Rounds by FLOOR(x * 10^n + 0.5): PostgreSQL rounds doubles to whole numbers only."""
    assert value.bounds is not None
    power = 10.0**decimals
    scaled = exp.Mul(this=operand(value), expression=number(power))
    floor = exp.Floor(this=exp.Add(this=scaled, expression=number(0.5)))
    tree: exp.Expr = floor if decimals == 0 else exp.Paren(this=exp.Div(this=floor, expression=number(power)))
    slack = 0.5 / power
    return derive_value(tree, kind, [value], Interval(value.bounds.low - slack, value.bounds.high + slack))


@rule(exp.Abs)
def _abs(node: exp.Abs, scope: Scope) -> Value:
    only(node, "this")
    value = bind(node.this, scope)
    (bounds,) = numbers(node, value)
    low = 0.0 if bounds.low <= 0 <= bounds.high else min(abs(bounds.low), abs(bounds.high))
    return derive_value(exp.Abs(this=operand(value)), value.kind, [value], Interval(low, bounds.size))


@rule(exp.Sign)
def _sign(node: exp.Sign, scope: Scope) -> Value:
    only(node, "this")
    value = bind(node.this, scope)
    numbers(node, value)
    return derive_value(double(exp.Sign(this=operand(value))), "int", [value], Interval(-1, 1))


def _guarded(node: Any, scope: Scope, low: float, high: float, make: Any, end: Callable[[float], float]) -> Value:
    """A rising function on the range where it is defined: the argument is held to it, below `low` gives NULL."""
    value = bind(node.this, scope)
    (bounds,) = numbers(node, value)
    inside = Interval(min(max(bounds.low, low), high), max(min(bounds.high, high), low))
    held = clamp(operand(value), low, high)
    outside = exp.LT(this=operand(value), expression=number(low))
    tree = exp.Case().when(outside, exp.Null(), copy=False).else_(make(held), copy=False)
    return derive_value(tree, "float", [value], Interval(end(inside.low), end(inside.high)))


@rule(exp.Sqrt)
def _sqrt(node: exp.Sqrt, scope: Scope) -> Value:
    only(node, "this")
    return _guarded(node, scope, 0.0, 1e100, lambda x: exp.Sqrt(this=x), math.sqrt)


@rule(exp.Ln)
def _ln(node: exp.Ln, scope: Scope) -> Value:
    only(node, "this")
    return _guarded(node, scope, 1e-9, 1e100, lambda x: exp.Ln(this=x), math.log)


@rule(exp.Exp)
def _exp(node: exp.Exp, scope: Scope) -> Value:
    only(node, "this")
    return _guarded(node, scope, -200.0, 200.0, lambda x: exp.Exp(this=x), math.exp)


@rule(exp.Pow)
def _pow(node: exp.Pow, scope: Scope) -> Value:
    """A small whole power, as a product."""
    only(node, "this", "expression", "operator")
    value = bind(node.this, scope)
    (bounds,) = numbers(node, value)
    power = _whole_literal(node, node.expression, scope, None, 1, 8)
    tree = operand(value)
    for _ in range(power - 1):
        tree = exp.Mul(this=drop_tiny_digits(tree), expression=operand(value))
    ends = [math.prod([bounds.low] * power), math.prod([bounds.high] * power)]  # ** raises where these are infinite
    low = 0.0 if power % 2 == 0 and bounds.low <= 0 <= bounds.high else min(ends)
    return derive_value(exp.Paren(this=tree), value.kind, [value], Interval(low, max(ends)))


def _whole_literal(
    node: exp.Expr, given: exp.Expr | None, scope: Scope, default: int | None, least: int, most: int
) -> int:
    if given is None and default is not None:
        return default
    value = bind(given, scope)
    value.must_be("int")
    if value.kind != "int" or value.literal is None or not least <= value.literal <= most:
        raise refusal(node, f"{spelling(node)} takes a whole number from {least} to {most} here")
    return int(value.literal)


@rule(exp.Least, exp.Greatest)
def _extreme(node: exp.Least | exp.Greatest, scope: Scope) -> Value:
    """Of all that are not NULL, as both engines have it."""
    only(node, "this", "expressions", "ignore_nulls")
    values = [bind(part, scope) for part in (node.this, *node.expressions)]
    kind = common(node, values)
    if kind not in NUMBERS:
        raise refusal(node, f"{spelling(node)} takes numbers here, not {kind}")
    pick = min if type(node) is exp.Least else max
    intervals = [value.bounds for value in values if value.bounds is not None]
    # A NULL is passed over: only a literal is sure to be there, so only its end is sure to hold.
    sure = [value.bounds for value in values if value.literal is not None and value.bounds is not None]
    around = hull(intervals)
    if type(node) is exp.Least:
        low, high = around.low, min([around.high, *(part.high for part in sure)])
    else:
        low, high = max([around.low, *(part.low for part in sure)]), around.high
    if len(sure) == len(intervals):
        low, high = pick(part.low for part in intervals), pick(part.high for part in intervals)
    first, *rest = (branch(value, kind) for value in values)
    return derive_value(type(node)(this=first, expressions=rest, ignore_nulls=True), kind, values, Interval(low, high))


@rule(exp.Coalesce)
def _coalesce(node: exp.Coalesce, scope: Scope) -> Value:
    only(node, "this", "expressions", "is_nvl", "is_null")
    values = [bind(part, scope) for part in (node.this, *node.expressions)]
    kind = common(node, values)
    first, *rest = (branch(value, kind) for value in values)
    bounds = hull(value.bounds for value in values if value.bounds is not None) if kind in NUMBERS else None
    return derive_value(exp.Coalesce(this=first, expressions=rest), kind, values, bounds)


@rule(exp.Nullif)
def _nullif(node: exp.Nullif, scope: Scope) -> Value:
    only(node, "this", "expression")
    value, other = bind(node.this, scope), bind(node.expression, scope)
    tree = exp.Case().when(build_comparison(exp.EQ, node, value, other), exp.Null(), copy=False)
    tree = tree.else_(branch(value, value.kind), copy=False)
    return derive_value(tree, value.kind, [value, other], value.bounds)


# ---- texts


def _text(node: exp.Expr, part: exp.Expr | None, scope: Scope) -> Value:
    value = bind(part, scope)
    value.learn("text")
    if value.kind not in ("text", "null"):
        raise refusal(node, f"{spelling(node)} needs a text, not {value.kind}", sqlstate="42883")
    return value


@rule(exp.Lower, exp.Upper)
def _case_of(node: exp.Lower | exp.Upper, scope: Scope) -> Value:
    only(node, "this")
    value = _text(node, node.this, scope)
    return derive_value(type(node)(this=value.tree.copy()), "text", [value], looks=value.longest)


@rule(exp.Trim)
def _trim(node: exp.Trim, scope: Scope) -> Value:
    only(node, "this")
    value = _text(node, node.this, scope)
    return derive_value(exp.Trim(this=value.tree.copy()), "text", [value], looks=value.longest)


@rule(exp.Length)
def _length(node: exp.Length, scope: Scope) -> Value:
    only(node, "this")
    value = _text(node, node.this, scope)
    return derive_value(
        double(exp.Length(this=value.tree.copy())), "int", [value], Interval(0, 2**31), looks=value.longest
    )


@rule(exp.Left, exp.Right)
def _end_of(node: exp.Left | exp.Right, scope: Scope) -> Value:
    only(node, "this", "expression")
    value = _text(node, node.this, scope)
    size = _whole_literal(node, node.expression, scope, None, 0, 10_000)
    tree = type(node)(this=value.tree.copy(), expression=number(size))
    return derive_value(tree, "text", [value], size=min(size, value.longest), looks=value.longest)


@rule(exp.Substring)
def _substring(node: exp.Substring, scope: Scope) -> Value:
    only(node, "this", "start", "length")
    value = _text(node, node.this, scope)
    start = _whole_literal(node, node.args.get("start"), scope, 1, 1, 10_000)
    length = _whole_literal(node, node.args.get("length"), scope, 10_000, 0, 10_000)
    tree = exp.Substring(this=value.tree.copy(), start=number(start), length=number(length))
    return derive_value(tree, "text", [value], size=min(length, value.longest), looks=value.longest)


def text_of(value: Value) -> exp.Expr | None:
    """A value as PostgreSQL writes it, if that cannot fail on any row; of fractions and moments, public ones alone."""
    if value.kind in ("text", "int", "bool", "date"):
        return exp.cast(key_tree(value), Type.TEXT)
    if not value.public:
        return None
    if value.kind == "timestamp":
        written = exp.cast(value.tree.copy(), Type.TEXT)
        return exp.DPipe(this=written, expression=exp.Literal.string("+00"), safe=True) if value.zoned else written
    if value.kind == "float" and value.stored is not None and value.stored.startswith("numeric"):
        return exp.Left(this=exp.cast(value.shown.copy(), Type.TEXT), expression=number(LONGEST_TEXT))
    if value.kind == "float":
        # DuckDB writes 2.0 where PostgreSQL writes 2.
        written = exp.cast(value.tree.copy(), Type.TEXT)
        end = exp.EQ(this=exp.Right(this=written, expression=number(2)), expression=exp.Literal.string(".0"))
        size = exp.Sub(this=exp.Length(this=written.copy()), expression=number(2))
        cut = exp.Left(this=written.copy(), expression=exp.cast(size, Type.INT))
        return exp.Case().when(end, cut, copy=False).else_(written.copy(), copy=False)
    return None


def written_length(value: Value) -> int:
    """Most characters of a value as a text."""
    if value.kind == "text":
        return value.longest
    digits = re.fullmatch(r"numeric\((\d+)(,\d+)?\)", value.stored or "")
    is_long = value.kind == "float" and (value.stored == "numeric" or (digits is not None and int(digits[1]) > 60))
    return LONGEST_TEXT if is_long else SHORT


@rule(exp.DPipe)
def _pipe(node: exp.DPipe, scope: Scope) -> Value:
    """One side is a text; the other may be a number or a time, as in PostgreSQL."""
    only(node, "this", "expression", "safe", "operator")
    left, right = bind(node.this, scope), bind(node.expression, scope)
    for side in (left, right):
        side.learn("text")
    trees = [side.tree.copy() if side.kind in ("text", "null") else text_of(side) for side in (left, right)]
    kinds = {left.kind, right.kind}
    if None in trees or not kinds & {"text", "null"}:
        wrong = next((side.kind for side in (left, right) if side.kind not in ("text", "null")), "null")
        raise refusal(node, f"|| needs a text, not {wrong}", sqlstate="42883", hint="cast one side to text")
    tree = exp.DPipe(this=trees[0], expression=trees[1], safe=True)
    # Cut, or a text that doubles in each of twenty subqueries runs out of memory for those rows that hold one.
    long = written_length(left) + written_length(right)
    cut = exp.Left(this=tree, expression=number(LONGEST_TEXT))
    return derive_value(cut, "text", [left, right], size=min(long, LONGEST_TEXT), looks=2 * long)


MOST_REPLACED = 100  # characters of what replace() looks for, and of what it writes


@rule(exp.Replace)
def _replace(node: exp.Replace, scope: Scope) -> Value:
    """Of literals alone: a text is looked at once for each character of the first, and grows by the second.

    Bytes are compared, whatever the collation of a column: one for which different texts are the same would fail.
    """
    only(node, "this", "expression", "replacement")
    value = _text(node, node.this, scope)
    texts = [bind(node.args.get(name), scope) for name in ("expression", "replacement")]
    old, new = (each.literal for each in texts)
    if not isinstance(old, str) or not isinstance(new, str) or not old or max(len(old), len(new)) > MOST_REPLACED:
        raise refusal(
            node, f"replace() takes two literal texts of up to {MOST_REPLACED} characters, the first not empty"
        )
    size = min(LONGEST_TEXT, value.longest * max(1, len(new)))
    tree = exp.Replace(this=bytewise(value.tree), expression=texts[0].tree.copy(), replacement=texts[1].tree.copy())
    cut = exp.Left(this=tree, expression=number(LONGEST_TEXT))
    return derive_value(cut, "text", [value], size=size, looks=value.longest * (len(old) + len(new) + 2))


@rule(exp.Like, exp.ILike)
def _like(node: exp.Like | exp.ILike, scope: Scope) -> Value:
    only(node, "this", "expression", "operator")
    value, pattern = _text(node, node.this, scope), bind(node.expression, scope)
    pattern.must_be("text")
    if pattern.nothing:
        return derive_value(exp.cast(exp.Null(), Type.BOOLEAN), "bool", [value])
    if not isinstance(pattern.literal, str) or "\\" in pattern.literal or pattern.literal.count("%") > 4:
        raise refusal(node, "LIKE takes a literal pattern without backslash and with at most four %")
    tree = exp.Paren(this=type(node)(this=value.tree.copy(), expression=pattern.tree.copy()))
    return derive_value(tree, "bool", [value], looks=pattern_looks(pattern.literal, value.longest) + 2 * value.longest)


@rule(exp.StartsWith)
def _starts_with(node: exp.StartsWith, scope: Scope) -> Value:
    only(node, "this", "expression")
    value, prefix = _text(node, node.this, scope), bind(node.expression, scope)
    prefix.must_be("text")
    if not isinstance(prefix.literal, str):
        raise refusal(node, "STARTS_WITH takes a literal text")
    start = exp.Left(this=value.tree.copy(), expression=number(len(prefix.literal)))
    tree = exp.Paren(this=exp.EQ(this=start, expression=prefix.tree.copy()))
    return derive_value(tree, "bool", [value], looks=2 * len(prefix.literal))


# ---- times


def _time(node: exp.Expr, part: exp.Expr | None, scope: Scope) -> Value:
    value = bind(part, scope)
    value.must_be("timestamp")
    if value.kind not in TIMES:
        raise refusal(node, f"{spelling(node)} needs a date or timestamp, not {value.kind}", sqlstate="42883")
    return value


def part_of(node: exp.Expr, name: str, value: Value, scope: Scope) -> Value:
    if name not in PARTS or (value.kind == "date" and name in ("HOUR", "MINUTE")):
        raise refusal(node, f"EXTRACT of {name} is not answered", hint=f"these are: {', '.join(PARTS).lower()}")
    low, high = PARTS[name]
    held = clamp_time(value.tree)
    got = exp.Extract(this=exp.Var(this=name), expression=held)
    return derive_value(exp.cast(got, Type.DOUBLE), "int", [value], Interval(low, high))


@rule(exp.Extract)
def _extract(node: exp.Extract, scope: Scope) -> Value:
    only(node, "this", "expression")
    return part_of(node, str(node.this.name).upper(), _time(node, node.expression, scope), scope)


@rule(exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.Hour, exp.Minute)
def _named_part(node: Any, scope: Scope) -> Value:
    only(node, "this")
    return part_of(node, type(node).__name__.upper(), _time(node, node.this, scope), scope)


@rule(exp.TimestampTrunc, exp.DateTrunc)
def _trunc_time(node: Any, scope: Scope) -> Value:
    only(node, "this", "unit", "zone", "unabbreviate")
    if node.args.get("zone") is not None:
        raise refusal(node, "a time zone in DATE_TRUNC is not answered")
    value = _time(node, node.this, scope)
    name = str(node.args["unit"].name).upper()
    if name not in TRUNCATIONS:
        raise refusal(
            node, f"DATE_TRUNC to {name} is not answered", hint=f"these are: {', '.join(TRUNCATIONS).lower()}"
        )
    held = exp.cast(clamp_time(value.tree), Type.TIMESTAMP)
    cut = exp.TimestampTrunc(this=held, unit=exp.Var(this=name))
    if scope.dialect != "postgres" and (value.kind == "date" or name not in ("HOUR", "MINUTE")):
        return derive_value(exp.cast(cut, Type.DATE), "date", [value])
    return derive_value(cut, "timestamp", [value])
