"""SQL of draws: arithmetic, hashes that become numbers, and what types of columns can be drawn for."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from sqlglot import exp

from sqlanon.sqltree.tree import BIGINT, DOUBLE, bigint, case, column, double, table, text

INT = exp.DataType.build("int")
UINT = exp.DataType.build("uinteger", dialect="duckdb")
UHUGEINT = exp.DataType.build("uhugeint", dialect="duckdb")
Kind = exp.DataType.Type
INTEGERS = exp.DataType.INTEGER_TYPES
FLOATS = {Kind.FLOAT, Kind.DOUBLE}
DECIMALS = {Kind.DECIMAL, Kind.BIGDECIMAL}
TIMES = {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPNTZ, Kind.TIMESTAMPTZ, Kind.TIMESTAMP_S, Kind.TIMESTAMP_MS}
TEXTS = exp.DataType.TEXT_TYPES
BYTES = 6  # of a digest make a draw: 48 bits, which a double holds with the half that is added


def alias(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def number(value: float | int | Decimal) -> exp.Expr:
    """A number as a literal; what is not an integer is a double, whatever an engine makes of 1.5."""
    if isinstance(value, int):
        return exp.convert(value)
    return exp.Cast(this=exp.convert(float(value)), to=DOUBLE.copy())


def string(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def binary(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Two values and a sign between them, with the parentheses that a nested one needs."""
    return kind(this=_held(left), expression=_held(right))


def _held(value: exp.Expr) -> exp.Expr:
    return exp.Paren(this=value) if isinstance(value, exp.Binary) else value


def plus(left: exp.Expr, *others: exp.Expr) -> exp.Expr:
    for other in others:
        left = binary(exp.Add, left, other)
    return left


def minus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return binary(exp.Sub, left, right)


def times(left: exp.Expr, *others: exp.Expr) -> exp.Expr:
    for other in others:
        left = binary(exp.Mul, left, other)
    return left


def over(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return binary(exp.Div, left, right)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def concatenate(parts: Iterable[exp.Expr]) -> exp.Expr:
    listed = list(parts)
    tree = listed[0]
    for part in listed[1:]:
        tree = exp.DPipe(this=tree, expression=part, safe=True)
    return tree


def round_double(value: exp.Expr, decimals: int) -> exp.Expr:
    """A double to so many decimals, halves up: engines differ in what ROUND makes of a half."""
    scale = 10.0**decimals
    return over(exp.Floor(this=plus(times(value, number(scale)), number(0.5))), number(scale))


def is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=value, expression=exp.Null())


def is_known(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=is_null(value))


def is_not_finite(value: exp.Expr) -> exp.Expr:
    """Whether a number is NaN or infinite. All engines here say that NaN equals NaN."""
    return exp.In(this=double(value), expressions=[double(string(word)) for word in ("NaN", "Infinity", "-Infinity")])


def nest_copy(query: exp.Query, name: str) -> exp.Subquery:
    return query.copy().subquery(alias=name, copy=False)


def cross_join(tree: exp.Select, *others: exp.Expr) -> exp.Select:
    for other in others:
        tree.append("joins", exp.Join(this=other, kind="CROSS"))
    return tree


# Draws ------------------------------------------------------------------------------------------------------------


def seed_row(seeds: str, label: str, name: str) -> exp.Subquery:
    """The one row of a seed in the table `seeds`, to be joined with all rows."""
    own = exp.select(exp.column("seed")).from_(table(seeds)).where(exp.column("label").eq(string(label)))
    return own.subquery(alias=name)


def digest(dialect: str, name: str | None, identity: exp.Expr) -> exp.Expr:
    """A hash of the identity of a row, keyed by a seed if its alias is given. It is a number on DuckDB, which reads the
    bytes from the last to the first, and hexadecimal digits elsewhere."""
    keyed = identity if name is None else concatenate([exp.column("seed", table=name), identity])
    return call("md5_number", keyed) if dialect == "duckdb" else exp.MD5(this=keyed)


def uniform(dialect: str, hashed: exp.Expr, part: int = 0) -> exp.Expr:
    """A number between 0 and 1, never 0 nor 1 itself, from 48 bits of a digest; there are two parts."""
    return evenly(dialect, hashed, BYTES * part, BYTES)


def evenly(dialect: str, hashed: exp.Expr, start: int | exp.Expr, length: int) -> exp.Expr:
    """The same from so many bytes of a digest, behind the first `start` ones."""
    return over(plus(double(_integer(dialect, hashed, start, length)), number(0.5)), number(2.0 ** (8 * length)))


def _integer(dialect: str, hashed: exp.Expr, start: int | exp.Expr, length: int) -> exp.Expr:
    if dialect == "duckdb":
        bits = _places(start, 8, 0)
        wide = bits if isinstance(start, int) else exp.Cast(this=bits, to=UHUGEINT.copy())
        shifted = exp.Paren(this=exp.BitwiseRightShift(this=hashed, expression=wide)) if start else hashed
        # Not %, which takes ten times as long on a number of 128 bits; and out of these 128 bits as soon as can be.
        masked = exp.BitwiseAnd(this=shifted, expression=exp.convert(2 ** (8 * length) - 1))
        return exp.Cast(this=exp.Paren(this=masked), to=(UINT if length <= 4 else BIGINT).copy())
    pieces = [
        exp.Substring(this=hashed.copy(), start=_places(start, 2, 1 + 2 * byte), length=exp.convert(2))
        for byte in reversed(range(length))
    ]
    if dialect == "postgres":
        kind = exp.DataType.build(f"bit({8 * length})", dialect="postgres")
        return bigint(exp.Cast(this=exp.Paren(this=concatenate([string("x"), *pieces])), to=kind))
    return bigint(call("CONV", concatenate(pieces), exp.convert(16), exp.convert(10)))


def _places(start: int | exp.Expr, each: int, more: int) -> exp.Expr:
    if isinstance(start, int):
        return exp.convert(each * start + more)
    scaled = times(start.copy(), exp.convert(each))
    return plus(scaled, exp.convert(more)) if more else scaled


# What a column is -------------------------------------------------------------------------------------------------


def is_number(kind: exp.DataType) -> bool:
    return kind.this in INTEGERS or kind.this in FLOATS or kind.this in DECIMALS


def is_ordered(kind: exp.DataType) -> bool:
    return is_number(kind) or kind.this in TIMES


def back(value: exp.Expr, kind: exp.DataType, decimals: int) -> exp.Expr:
    """A double as a value of the column's own type: integers are rounded, halves up."""
    if kind.this in INTEGERS:
        return exp.Cast(this=exp.Floor(this=plus(value, number(0.5))), to=kind.copy())
    places = scale_of(kind)
    return exp.Cast(this=round_double(value, decimals if places is None else min(decimals, places)), to=kind.copy())


def scale_of(kind: exp.DataType) -> int | None:
    """The decimals of a DECIMAL type; None for other types, and where there is no limit."""
    if kind.this not in DECIMALS or len(kind.expressions) < 2:
        return 0 if kind.this in DECIMALS and len(kind.expressions) == 1 else None
    return int(kind.expressions[1].name)


def canonical(name: str, kind: exp.DataType, owner: str | None = None) -> exp.Expr:
    """A value as text that is the same on every engine, '-' for NULL, and told apart from its neighbours.

    `owner` is the alias of its rows, where others are joined to them, which may have a column of that name.
    """
    value: exp.Expr = column(name, owner)
    if kind.this in FLOATS:
        # Engines print floating-point numbers differently: two integers hold 13 decimals.
        scaled = times(double(value), number(10000.0))
        whole = exp.Floor(this=scaled)
        rest = exp.Floor(this=times(minus(scaled.copy(), whole.copy()), number(1e9)))
        printed = concatenate([text(bigint(whole)), string("."), text(bigint(rest))])
        # Larger ones have no such decimals; what is beyond integers, too, is told from its neighbours no more.
        floor = exp.Floor(this=double(column(name, owner)))
        left = exp.Floor(this=times(minus(double(column(name, owner)), floor), number(1e9)))
        longer = concatenate([text(bigint(floor.copy())), string(","), text(bigint(left))])
        written = case(
            (exp.LT(this=exp.Abs(this=double(column(name, owner))), expression=number(9e14)), printed),
            (exp.LT(this=exp.Abs(this=double(column(name, owner))), expression=number(9e18)), longer),
            (exp.EQ(this=double(column(name, owner)), expression=double(string("NaN"))), string("NaN")),
            (exp.EQ(this=double(column(name, owner)), expression=double(string("Infinity"))), string("Infinity")),
            (exp.EQ(this=double(column(name, owner)), expression=double(string("-Infinity"))), string("-Infinity")),
            (exp.GT(this=double(column(name, owner)), expression=number(0.0)), string("large")),
            default=string("small"),
        )
    elif kind.this in TEXTS:
        written = concatenate([text(call("LENGTH", value)), string(" "), column(name, owner)])
    else:
        written = text(value)
    return exp.Coalesce(this=written, expressions=[string("-")])
