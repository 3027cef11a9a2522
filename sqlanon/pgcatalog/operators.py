"""Comparisons, arithmetic and the other operators: what types they take, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.pgcatalog.binder import CatalogBinder
from sqlanon.pgcatalog.bound_expression import Bound, binary, call, cast, constant, safe
from sqlanon.pgcatalog.kinds import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    NUMBERS,
    NUMERIC,
    STRINGS,
    TEXT,
    TIMESTAMP,
    WHOLE,
    array_of,
    sql_name,
)
from sqlanon.pgcatalog.scope import SelectScope
from sqlanon.pgwire.types import PgType

COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip
MATCHED: dict[str, type[exp.Expr]] = {
    "=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
    "~": exp.RegexpLike,
    "~*": exp.RegexpILike, "~~": exp.Like, "~~*": exp.ILike, "||": exp.DPipe, "+": exp.Add, "-": exp.Sub,
    "*": exp.Mul, "/": exp.Div, "%": exp.Mod,
}  # fmt: skip


LIKES: dict[type[exp.Expr], str] = {exp.Like: "like_escape", exp.ILike: "ilike_escape"}


def no_operator(symbol: str, left: PgType, right: PgType) -> Refused:
    said = f"operator does not exist: {sql_name(left)} {symbol} {sql_name(right)}"
    return Refused(said, sqlstate="42883", hint="an explicit cast may be needed")


def match_types(b: CatalogBinder, symbol: str, items: Sequence[Bound]) -> list[Bound]:
    """Values of one type, so that they can be compared."""
    known = [item.type for item in items if not item.unknown]
    try:
        kind = b.casts.common(items, "")
    except Refused:
        raise no_operator(symbol, known[0], known[1]) from None
    if kind.name in ("varchar", "bpchar"):
        kind = TEXT  # it has the operators of text
    if kind.name == "record":
        raise Refused("rows are not compared here", sqlstate="0A000")
    if kind.oid == NUMERIC.oid:
        return _numerics(b, items)
    return [
        b.casts.to(item, kind, explicit=False)
        if item.unknown or item.type.name not in STRINGS or kind.name not in STRINGS
        else item
        for item in items
    ]


def _numerics(b: CatalogBinder, items: Sequence[Bound]) -> list[Bound]:
    """Numbers with equally many digits after the point, so that none is rounded when they are compared."""
    made = [b.casts.to(item, NUMERIC, explicit=False) for item in items]
    values = [item.value for item in made if item.constant and item.value is not None]
    scale = max((max(0, -int(value.as_tuple().exponent)) for value in values), default=0)
    if len(values) < len(made):
        scale = max(scale, 10)
    return [Bound(cast(item.tree, f"DECIMAL(38,{min(scale, 38)})"), NUMERIC) for item in made]


def comparison(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    left = b.expression(node.this, scope)
    return compare_values(b, type(node), left, node.expression, scope)


def compare_values(b: CatalogBinder, kind: type[exp.Expr], left: Bound, right: exp.Expr, scope: SelectScope) -> Bound:
    several = split_quantifier(right)
    if several is not None:
        return _with_several(b, kind, left, several, scope)
    one, other = match_types(b, COMPARED[kind], [left, b.expression(right, scope)])
    return Bound(binary(kind, one.tree, other.tree), BOOL)


def split_quantifier(node: exp.Expr) -> tuple[bool, exp.Expr] | None:
    """Whether the right side is ANY(…) or ALL(…): whether all are meant, and of what."""
    if type(node) in (exp.Any, exp.All):
        return type(node) is exp.All, node.this
    if type(node) is exp.Anonymous and str(node.this).lower() in ("all", "some", "any") and len(node.expressions) == 1:
        return str(node.this).lower() == "all", node.expressions[0]
    return None


def _with_several(
    b: CatalogBinder, kind: type[exp.Expr], left: Bound, several: tuple[bool, exp.Expr], scope: SelectScope
) -> Bound:
    every, operand = several
    while type(operand) is exp.Paren:
        operand = operand.this
    if isinstance(operand, exp.Query):
        return _with_query(b, kind, left, every, operand, scope)
    array = b.expression(operand, scope)
    if array.unknown:
        array = b.casts.to(array, array_of(TEXT if left.unknown else left.type))
    if array.type.element is None:
        raise Refused("op ANY/ALL (array) requires array on right side", sqlstate="42809")
    symbol = COMPARED.get(kind, "~~")
    if kind not in COMPARED:
        left, element = b.casts.text(left), TEXT
    else:
        left = match_types(b, symbol, [left, Bound(exp.Null(), array.type.element)])[0]
        element = match_types(b, symbol, [Bound(exp.Null(), array.type.element), left])[0].type
    if not (element.name in STRINGS and array.type.element.name in STRINGS):
        array = b.casts.to(array, array_of(element))
    if kind is exp.EQ and not every:
        return Bound(call("list_contains", array.tree, left.tree), BOOL)
    if kind is exp.NEQ and every:
        return Bound(exp.Not(this=call("list_contains", array.tree, left.tree)), BOOL)
    alias = b.fresh("r")
    rows = exp.Select(expressions=[exp.alias_(call("unnest", array.tree), "c0")])
    test = _test(kind, left.tree, exp.column("c0", table=alias))
    inner = exp.Select(expressions=[exp.Literal.number(1)]).from_(
        exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier(alias)))
    )
    found = exp.Exists(this=inner.where(exp.Not(this=safe(test)) if every else test))
    return Bound(exp.Not(this=found) if every else found, BOOL)


def _with_query(
    b: CatalogBinder, kind: type[exp.Expr], left: Bound, every: bool, operand: exp.Expr, scope: SelectScope
) -> Bound:
    if kind not in COMPARED or kind in (exp.NullSafeEQ, exp.NullSafeNEQ):
        raise Refused("this comparison with a subquery is not answered here", sqlstate="0A000")
    plan = b.query(operand, scope)
    if len(plan.items) != 1:
        raise Refused("subquery has too many columns", sqlstate="42601")
    if plan.items[0].unknown:
        plan.take(0, TEXT if left.unknown else left.type)
    left, right = match_types(b, COMPARED[kind], [left, plan.items[0]])
    plan.take(0, right.type)
    wrapped = exp.Subquery(this=plan.tree())
    return Bound(kind(this=safe(left.tree), expression=(exp.All if every else exp.Any)(this=wrapped)), BOOL)


def _test(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    if kind is exp.RegexpLike:
        return call("regexp_matches", left, right)
    if kind is exp.RegexpILike:
        return call("regexp_matches", left, right, exp.Literal.string("i"))
    if kind in LIKES:
        return call(LIKES[kind], left, right, exp.Literal.string("\\"))  # as PostgreSQL does by itself
    return binary(kind, left, right)


def pattern(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    """LIKE, ILIKE and regular expressions, which are always of text."""
    left, kind = b.expression(node.this, scope), type(node)
    several = split_quantifier(node.expression)
    if several is not None:
        made = _with_several(b, kind, left, several, scope).tree
    else:
        made = _test(kind, b.casts.text(left).tree, b.casts.text(b.expression(node.expression, scope)).tree)
    return Bound(exp.Not(this=safe(made)) if node.args.get("negate") else made, BOOL)


def like_escape(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    """LIKE … ESCAPE …"""
    inner = node.this
    if type(inner) not in (exp.Like, exp.ILike) or split_quantifier(inner.expression) is not None:
        raise Refused("ESCAPE is not answered here", sqlstate="0A000")
    parts = [b.casts.text(b.expression(each, scope)).tree for each in (inner.this, inner.expression, node.expression)]
    made = call(LIKES[type(inner)], *parts)
    return Bound(exp.Not(this=made) if inner.args.get("negate") else made, BOOL)


def concatenation(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    """|| of texts, arrays or bytes."""
    left, right = b.expression(node.this, scope), b.expression(node.expression, scope)
    if left.type.element is not None or right.type.element is not None:
        return _joined_arrays(b, left, right)
    if BYTEA.oid in (left.type.oid, right.type.oid):
        items = [b.casts.to(item, BYTEA, explicit=False) for item in (left, right)]
        return Bound(binary(exp.DPipe, items[0].tree, items[1].tree), BYTEA)
    if not any(item.unknown or item.type.name in STRINGS for item in (left, right)):
        raise no_operator("||", left.type, right.type)
    one, other = b.casts.text(left), b.casts.text(right)
    if one.constant and other.constant:
        both = None if one.value is None or other.value is None else one.value + other.value
        return constant(both, TEXT)
    return Bound(call("short", binary(exp.DPipe, one.tree, other.tree)), TEXT)


def _joined_arrays(b: CatalogBinder, left: Bound, right: Bound) -> Bound:
    array = left.type if left.type.element is not None else right.type
    assert array.element is not None
    if left.type.element is None and not left.unknown:
        return Bound(call("list_prepend", b.casts.to(left, array.element).tree, right.tree), array)
    if right.type.element is None and not right.unknown:
        return Bound(call("list_append", left.tree, b.casts.to(right, array.element).tree), array)
    kind = b.casts.common([left, right], "||")
    return Bound(call("list_concat", b.casts.to(left, kind).tree, b.casts.to(right, kind).tree), kind)


BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift)
SYMBOLS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}


def arithmetic(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    kind = type(node)
    left, right = b.expression(node.this, scope), b.expression(node.expression, scope)
    if left.unknown and right.unknown:
        raise Refused(f"operator is not unique: unknown {SYMBOLS[kind]} unknown", sqlstate="42725")
    if left.unknown:
        left = b.casts.to(left, FLOAT8 if kind is exp.Mul and right.type.name == "interval" else right.type)
    if right.unknown:
        moved = kind is exp.Add and left.type.name in ("timestamp", "timestamptz", "date", "time")
        right = b.casts.to(right, INTERVAL if moved else left.type)
    if left.type.name in NUMBERS and right.type.name in NUMBERS:
        return _numbers(b, kind, left, right)
    made = _times(kind, left.type, right.type)
    if made is None:
        raise no_operator(SYMBOLS[kind], left.type, right.type)
    tree = binary(kind, left.tree, right.tree)
    return Bound(cast(tree, "INTEGER") if made is INT4 else tree, made)


def _times(kind: type[exp.Expr], left: PgType, right: PgType) -> PgType | None:
    moments = ("timestamp", "timestamptz", "time")
    if kind in (exp.Add, exp.Sub):
        if left.name == "date" and right.name in ("int2", "int4"):
            return DATE
        if left.name in (*moments, "interval") and right.name == "interval":
            return left
        if left.name == "date" and right.name == "interval":
            return TIMESTAMP
    if kind is exp.Add and left.name == "interval" and right.name in moments:
        return right
    if kind is exp.Sub and left.oid == right.oid:
        return INT4 if left.name == "date" else INTERVAL if left.name in moments else None
    if kind is exp.Mul and left.name == "interval" and right.name in ("int2", "int4", "int8", "float8"):
        return INTERVAL
    if kind is exp.Mul and right.name == "interval" and left.name in ("int2", "int4", "int8", "float8"):
        return INTERVAL
    return None


def _numbers(b: CatalogBinder, kind: type[exp.Expr], left: Bound, right: Bound) -> Bound:
    wide = b.casts.common([left, right], SYMBOLS[kind])
    if wide.name == "float4" and left.type.oid != right.type.oid:
        wide = FLOAT8
    left, right = b.casts.to(left, wide), b.casts.to(right, wide)
    divides = kind in (exp.Div, exp.Mod)
    if divides and right.constant and right.value == 0:
        raise Refused("division by zero", sqlstate="22012")
    if wide is NUMERIC and left.constant and right.constant:
        if left.value is None or right.value is None:
            return constant(None, NUMERIC)
        return constant(exactly(kind, left.value, right.value), NUMERIC)
    divisor = right.tree if not divides or right.constant else call("not_zero", right.tree)
    if kind is exp.Div and wide.name in WHOLE:
        tree: exp.Expr = binary(exp.IntDiv, left.tree, divisor)
    elif kind is exp.Div and wide is NUMERIC:
        tree = cast(binary(exp.Div, cast(left.tree, "DOUBLE"), cast(divisor, "DOUBLE")), "DECIMAL(38,16)")
    else:
        tree = binary(kind, left.tree, divisor)
    return Bound(tree, wide)


def exactly(kind: type[exp.Expr], left: Decimal, right: Decimal) -> Decimal:
    """Arithmetic of numeric, digit for digit as PostgreSQL does it.

    >>> exactly(exp.Div, Decimal("1.0"), Decimal(3)), exactly(exp.Mul, Decimal("1.5"), Decimal("2.25"))
    (Decimal('0.33333333333333333333'), Decimal('3.375'))
    """
    operations: dict[type[exp.Expr], Callable[[], Decimal]] = {
        exp.Add: lambda: left + right,
        exp.Sub: lambda: left - right,
        exp.Mul: lambda: left * right,
        exp.Mod: lambda: left % right,
        exp.Div: lambda: _divided(left, right),
    }
    with localcontext() as context:
        context.prec = 2000
        return operations[kind]()


def _divided(left: Decimal, right: Decimal) -> Decimal:
    def digits(value: Decimal) -> tuple[int, int]:
        """The weight of the first digit to base 10,000, and that digit."""
        weight = value.adjusted() // 4 if value else 0
        return weight, int(abs(value).scaleb(-4 * weight))

    (one, first), (other, second) = digits(left), digits(right)
    weight = one - other - (1 if first <= second else 0)
    scale = max(16 - 4 * weight, *(max(0, -int(value.as_tuple().exponent)) for value in (left, right)), 0)
    return (left / right).quantize(Decimal(1).scaleb(-min(scale, 1000)), "ROUND_HALF_UP")


def bits(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    left, right = b.expression(node.this, scope), b.expression(node.expression, scope)
    if left.unknown or right.unknown:
        left, right = (b.casts.to(item, INT4) if item.unknown else item for item in (left, right))
    if left.type.name not in WHOLE or right.type.name not in WHOLE:
        raise no_operator(node.key, left.type, right.type)
    if type(node) in (exp.BitwiseLeftShift, exp.BitwiseRightShift):
        return Bound(binary(type(node), left.tree, right.tree), left.type)
    wide = b.casts.common([left, right], "&")
    trees = [b.casts.to(item, wide).tree for item in (left, right)]
    return Bound(call("xor", *trees) if type(node) is exp.BitwiseXor else binary(type(node), *trees), wide)


def containment(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    """@> and && of arrays"""
    left, right = b.expression(node.this, scope), b.expression(node.expression, scope)
    if left.type.element is None and right.type.element is None:
        raise no_operator("@>", left.type, right.type)
    kind = b.casts.common([left, right], "@>")
    name = "list_has_all" if type(node) is exp.ArrayContainsAll else "list_has_any"
    return Bound(call(name, *(b.casts.to(item, kind).tree for item in (left, right))), BOOL)


def invert_bits(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    """~"""
    item = b.expression(node.this, scope)
    if item.type.name not in WHOLE:
        raise Refused(f"operator does not exist: ~ {sql_name(item.type)}", sqlstate="42883")
    return Bound(exp.BitwiseNot(this=safe(item.tree)), item.type)


def power(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    items = [b.expression(each, scope) for each in (node.this, node.expression)]
    if NUMERIC.oid in (item.type.oid for item in items):
        raise Refused("powers of numeric are not answered here", sqlstate="0A000", hint="cast to float8")
    return Bound(call("pow", *(b.casts.to(item, FLOAT8, explicit=False).tree for item in items)), FLOAT8)


def negative(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    inner = node.this
    if type(inner) is exp.Literal and not inner.is_string:
        return number(f"-{inner.this}")
    item = b.expression(inner, scope)
    if item.unknown:
        item = b.casts.to(item, FLOAT8)
    if item.type.name not in (*NUMBERS, "interval"):
        raise Refused(f"operator does not exist: - {sql_name(item.type)}", sqlstate="42883")
    if item.constant and item.type is NUMERIC:
        return constant(None if item.value is None else item.value.copy_negate(), NUMERIC)
    return Bound(exp.Neg(this=safe(item.tree)), item.type)


def number(written: str) -> Bound:
    """A number as SQL writes it: the smallest type of int4, int8 and numeric that holds it."""
    digits = written.removeprefix("-")
    if digits.isdigit() and len(digits) < 20:
        value = int(written)
        if -(2**31) <= value < 2**31:
            return constant(value, INT4)
        if -(2**63) <= value < 2**63:
            return constant(value, INT8)
    try:
        made = Decimal(written)
    except ArithmeticError:
        raise Refused("syntax error in a number", sqlstate="42601") from None
    if made.is_finite() and abs(made.adjusted()) > 2000:
        raise Refused("a numeric of more than 38 digits is not answered here", sqlstate="22003")
    # Written out: Decimal's own rounding knows only 28 digits.
    return constant(Decimal(format(made, "f")), NUMERIC)
