"""Expressions: each admitted node is read by exact type and argument, and written anew.

Nothing of the analyst's tree is kept. A node without a rule, or an argument that its rule does not read, is refused.
What is built cannot fail on any row: arithmetic runs in bounded doubles, divisors near zero give NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, Protocol

import sqlglot
from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.row_work import LONGEST_TEXT, weigh_text
from sqlanon.gateway.bind.values import (
    NUMBERS,
    TIMES,
    UNDECLARED,
    WIDEST,
    Interval,
    Kind,
    Value,
    double,
    in_days,
    number,
    operand,
)
from sqlanon.sqlfront.limits import has_half_characters

# Divisors nearer to zero than this give NULL, so that no quotient overflows.
TINY = 1e-9
MAX_DIVISOR = 300  # nodes
MAX_TREE = 5_000  # nodes of one expression, as it is written for an engine
# Versions of the parser that statements were read with, from the first to the one before the last, as pyproject.toml
# declares them: a newer one may write a part of a statement into an argument that no rule reads, and that is refused.
TESTED = ((30, 24, 0), (30, 31))
Rule = Callable[[Any, "Scope"], Value]
RULES: dict[type, Rule] = {}


class Scope(Protocol):
    """Where names are looked up, and what else is allowed at a place: aggregates, windows, keys of a group."""

    @property
    def dialect(self) -> str: ...

    def column(self, node: exp.Column) -> Value: ...

    def special(self, node: exp.Expr) -> Value | None: ...


def bind(node: exp.Expr | None, scope: Scope) -> Value:
    """The value of an analyst's expression, or a refusal that names what is not understood."""
    value = bind_shown(node, scope)
    if value.kind == "opaque":
        hint = "select it as it is, or ask whether it IS NULL"
        raise refusal(node or exp.Null(), f"the gateway does not compute with values of type {value.stored}", hint=hint)
    return value


def bind_shown(node: exp.Expr | None, scope: Scope) -> Value:
    """As `bind`, where a value is not used but shown."""
    if node is None:
        raise Refused("an expression is missing", sqlstate="42601")
    found = scope.special(node)
    if found is not None:
        return found
    found_rule: Rule | None = RULES.get(type(node))
    if found_rule is None:
        hint = "see the README for what the gateway reads"
        if isinstance(node, exp.Subquery | exp.Exists | exp.Query):
            hint = "join the table on the privacy unit, or put the subquery into FROM"
        state = "42883" if type(node) is exp.Anonymous else "0A000"
        raise refusal(node, f"{spelling(node)} is not answered", hint=hint, sqlstate=state)
    return found_rule(node, scope)


def rule(*types: type[exp.Expr]) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for each in types:
            RULES[each] = function
        return function

    return register


# Words that a person may have written. What else the parser calls its nodes and arguments is its own business.
SQL_WORDS = frozenset(word.strip() for word in sqlglot.tokens.Tokenizer.KEYWORDS if word.strip().isalpha()) | {
    "ORDER BY", "GROUP BY", "FILTER", "IN", "IS", "LIKE", "SELECT",
}  # fmt: skip
ARGUMENTS = {
    "negate": "NOT", "db": "the name of a schema", "catalog": "the name of a database", "order": "ORDER BY",
    "group": "GROUP BY", "joins": "JOIN", "sample": "TABLESAMPLE", "laterals": "LATERAL", "pivots": "PIVOT",
    "method": "NATURAL", "on": "ON",
    "locks": "FOR UPDATE", "columns": "a list of column names", "ordinality": "WITH ORDINALITY", "kind": "the kind",
    "operation_modifiers": "a modifier", "windows": "WINDOW", "nulls_first": "NULLS FIRST",
}  # fmt: skip


def only(node: exp.Expr, *read: str) -> None:
    """Refuse an argument that no rule reads: DISTINCT, FILTER or ORDER BY must never be dropped silently."""
    for name, value in node.args.items():
        if name not in read and value not in (None, False, []):
            said = f"{argument_spelling(name)} in {spelling(node)} is not answered"
            detail = f"It is the argument '{name}' of {type(node).__name__}, which is not read here."
            raise refusal(node, said, detail=detail, hint=parser_hint())


def parser_hint() -> str | None:
    """A hint for an installation with a parser version that was never tested."""
    version = str(vars(sqlglot)["__version__"])
    installed = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if TESTED[0] <= installed < TESTED[1]:
        return None
    least, most = (".".join(map(str, each)) for each in TESTED)
    return f"this was not tested with sqlglot {version}: install sqlglot>={least},<{most}"


def position(node: exp.Expr) -> int | None:
    """Where a construct stands in the text, counted from 1: its own place, or that of its first part."""
    places = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(places) + 1 if places else None


def refusal(
    node: exp.Expr, message: str, *, hint: str | None = None, sqlstate: str = "0A000", detail: str | None = None
) -> Refused:
    return Refused(message, hint=hint, sqlstate=sqlstate, detail=detail, position=position(node))


def spelling(node: exp.Expr) -> str:
    """How a person would call a node."""
    if isinstance(node, exp.Anonymous):
        return f"the function {str(node.this)[:60]}()"
    operators = (exp.Binary, exp.Case, exp.Cast, exp.Exists, exp.Array)
    if isinstance(node, exp.Func) and not isinstance(node, operators):
        # As it was written: the parser's own name for to_char() is one that nobody has heard of.
        return f"the function {node.meta.get('written', node.sql_name())[:60]}()"
    named: dict[type, str] = {
        exp.Subquery: "a subquery in an expression", exp.Exists: "EXISTS", exp.TableAlias: "an alias",
        exp.Ordered: "ORDER BY", exp.Order: "ORDER BY", exp.Table: "FROM",
    }  # fmt: skip
    if type(node) is exp.Table and isinstance(node.this, exp.Func):
        return spelling(node.this)
    if type(node) in named:
        return named[type(node)]
    # The parser's words are no words of SQL: DPIPE is ||, and a person wrote 'a || b'.
    word = node.key.upper()
    return word if word in SQL_WORDS and not isinstance(node, exp.Binary) else shorten_sql(node)


def argument_spelling(name: str) -> str:
    """How a person would call an argument of a node.

    >>> argument_spelling("negate"), argument_spelling("distinct"), argument_spelling("with_")
    ('NOT', 'DISTINCT', 'WITH')
    """
    word = name.upper().replace("_", " ").strip()
    return ARGUMENTS.get(name, word if word in SQL_WORDS else f"'{word.lower()}'")


def shorten_sql(node: exp.Expr) -> str:
    """An expression as SQL, for a message."""
    text = node.sql("postgres")
    return text if len(text) <= 60 else f"{text[:60]}…"


def derive_value(
    tree: exp.Expr,
    kind: Kind,
    parts: Sequence[Value],
    bounds: Interval | None = None,
    keys: Any = None,
    *,
    size: int | None = None,
    looks: int = 0,
) -> Value:
    """A value that was computed from others.

    `size` is how many characters a text has, those of its longest part if left out; `looks` at how many characters
    of its parts the outermost function looks.
    """
    if sum(1 for _ in tree.walk()) > MAX_TREE:
        # Some functions write their argument four times: five of them, one inside the other, a thousand times.
        raise Refused("an expression is too long to be answered", sqlstate="54001", hint="compute less at a time")
    public = all(part.public for part in parts)
    if kind in NUMBERS and bounds is None:
        bounds = UNDECLARED
    if kind == "text" and size is None:
        size = max((part.longest for part in parts if part.kind == "text"), default=LONGEST_TEXT)
    if looks:
        weigh_text(tree, looks)
    return Value(tree, kind, bounds, keys=keys, public=public, computed=kind in NUMBERS, size=size)


def numbers(node: exp.Expr, *values: Value) -> list[Interval]:
    known: Kind = next((value.kind for value in values if value.kind in NUMBERS), "float")
    for value in values:
        value.must_be(known)
        if value.kind not in NUMBERS or value.bounds is None:
            raise refusal(node, f"{spelling(node)} needs numbers, not {value.kind}", sqlstate="42883")
    return [value.bounds for value in values if value.bounds is not None]


def common(node: exp.Expr, values: Sequence[Value]) -> Kind:
    """The kind that several values share, as CASE and COALESCE need it."""
    kinds = {value.kind for value in values} - {"null"}
    if not kinds:
        return "null"
    if len(kinds) == 1 or kinds <= set(NUMBERS):
        kind: Kind = kinds.pop() if len(kinds) == 1 else "float"
        for value in values:
            value.learn(kind)
        return kind
    raise refusal(
        node, f"{spelling(node)} mixes {' and '.join(sorted(kinds))}", sqlstate="42804", hint="cast them to one type"
    )


def branch(value: Value, kind: Kind) -> exp.Expr:
    return operand(value) if kind in NUMBERS and value.kind != "null" else value.tree.copy()


# ---- literals and names


@rule(exp.Column)
def _column(node: exp.Column, scope: Scope) -> Value:
    return scope.column(node)


@rule(exp.Paren)
def _paren(node: exp.Paren, scope: Scope) -> Value:
    only(node, "this")
    return bind_shown(node.this, scope)


@rule(exp.Literal)
def _literal(node: exp.Literal, scope: Scope) -> Value:
    text = str(node.this)
    if node.is_string:
        return text_literal(text)
    return number_literal(node, text)


def text_literal(text: str) -> Value:
    if "\x00" in text or len(text) > 10_000 or has_half_characters(text):
        raise Refused("a text is too long, or holds a zero byte or half a character", sqlstate="22021")
    return Value(exp.Literal.string(text), "text", literal=text, public=True, keys=(text,))


def number_literal(node: exp.Expr, text: str, kind: Kind | None = None) -> Value:
    """A number as it is written; whole if it has digits alone, unless `kind` says what it must be."""
    try:
        whole = text.isdigit() if kind is None else kind == "int"
        value: float = int(text) if whole else float(text)
    except ValueError:
        raise refusal(node, f"'{text[:40]}' is not a number", sqlstate="22P02") from None
    if not abs(value) <= 1e18 or (value != 0 and abs(value) < 1e-30):
        raise refusal(node, "a number is too large or too small", sqlstate="22003", hint="up to 18 digits are read")
    return number_value(value, "int" if whole else "float")


def read_as(node: exp.Expr, text: str, kind: Kind) -> Value:
    """A text that stands where another kind is meant, read as PostgreSQL reads it."""
    if kind in TIMES:
        return temporal(node, text, kind)
    found = text.strip().lower()
    if kind == "bool":
        for value, words in ((True, ("true", "yes", "on", "1")), (False, ("false", "no", "off", "0"))):
            if found and found != "o" and any(word.startswith(found) for word in words):
                return Value(exp.Boolean(this=value), "bool", literal=value, public=True)
    elif kind in NUMBERS:
        pattern = r"[+-]?\d+" if kind == "int" else r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
        if re.fullmatch(pattern, found, flags=re.ASCII) is not None:
            return number_literal(node, found, kind)
    else:
        return text_literal(text)
    names = {"int": "integer", "float": "double precision", "bool": "boolean"}
    raise refusal(node, f'invalid input syntax for type {names[kind]}: "{text[:40]}"', sqlstate="22P02")


def number_value(value: float, kind: Kind) -> Value:
    """A fraction is a double from the start: as a DECIMAL it would fail beside a whole number of many digits."""
    tree = number(value) if kind == "int" else double(number(value))
    return Value(tree, kind, Interval(value, value), literal=value, public=True, keys=(value,))


@rule(exp.Boolean)
def _boolean(node: exp.Boolean, scope: Scope) -> Value:
    return Value(exp.Boolean(this=bool(node.this)), "bool", literal=bool(node.this), public=True)


@rule(exp.Null)
def _null(node: exp.Null, scope: Scope) -> Value:
    return Value(exp.Null(), "null", public=True)


# A date or a time of a date, and a zone behind it; behind a date alone, a minus would be part of another date.
ZONED = re.compile(
    r"(?P<moment>\d{4}-\d\d-\d\d(?:(?=[\s+zZ])|[ T]+\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?))"
    r"\s*(?:[zZ]|UTC|(?P<sign>[+-])(?P<hours>0?\d|1[0-5])(?::?(?P<minutes>[0-5]\d)(?::?(?P<seconds>[0-5]\d))?)?)",
    re.ASCII,
)


def temporal(node: exp.Expr, text: str, kind: Kind, *, zoned: bool = False) -> Value:
    """A time that is written as a text; `zoned`: beside moments, where a zone counts and UTC is meant without one."""
    found = ZONED.fullmatch(text.strip())
    try:
        moment = datetime.fromisoformat(found["moment"] if found else text.strip())
    except ValueError:
        raise refusal(node, f"'{text[:40]}' is not a date", sqlstate="22007", hint="write it as 2026-01-31") from None
    # As PostgreSQL has it: a date or a timestamp without time zone takes no notice of one.
    moment = moment.replace(tzinfo=None)
    if zoned:
        if found is not None and found["sign"]:
            away = timedelta(**{unit: int(found[unit] or 0) for unit in ("hours", "minutes", "seconds")})
            try:
                moment = moment - away if found["sign"] == "+" else moment + away
            except OverflowError:
                raise refusal(node, "a time is out of range", sqlstate="22008") from None
        return replace(date_literal(moment), zoned=True)
    if kind == "date" and moment == datetime.combine(moment.date(), datetime.min.time()):
        return date_literal(moment.date())
    return date_literal(moment)


def date_literal(moment: date) -> Value:
    kind: Kind = "timestamp" if isinstance(moment, datetime) else "date"
    to = exp.DataType.Type.TIMESTAMP if kind == "timestamp" else exp.DataType.Type.DATE
    text = moment.isoformat(sep=" ") if isinstance(moment, datetime) else moment.isoformat()
    return Value(exp.cast(exp.Literal.string(text), to), kind, literal=moment, public=True, keys=(moment,))


# ---- arithmetic


@rule(exp.Neg)
def _neg(node: exp.Neg, scope: Scope) -> Value:
    only(node, "this")
    value = bind(node.this, scope)
    (bounds,) = numbers(node, value)
    low, high = -bounds.high, -bounds.low
    if value.literal is not None:
        return replace(number_value(-value.literal, value.kind), slot=value.slot)
    return derive_value(exp.Neg(this=exp.Paren(this=operand(value))), value.kind, [value], Interval(low, high))


def _operands(node: exp.Binary, scope: Scope) -> tuple[Value, Value]:
    """Both sides; a parameter is of the kind of the other one, as in PostgreSQL."""
    left, right = bind(node.this, scope), bind(node.expression, scope)
    known: tuple[Kind, ...] = (*NUMBERS, "date") if type(node) is exp.Sub else NUMBERS
    kind: Kind = next((side.kind for side in (left, right) if side.kind in known), "float")
    return left.as_kind(kind), right.as_kind(kind)


@rule(exp.Add, exp.Sub, exp.Mul)
def _arithmetic(node: exp.Binary, scope: Scope) -> Value:
    only(node, "this", "expression", "operator")
    left, right = _operands(node, scope)
    if type(node) is exp.Sub and left.kind == right.kind == "date":
        left, right = in_days(left), in_days(right)
    a, b = numbers(node, left, right)
    if type(node) is exp.Add:
        low, high = a.low + b.low, a.high + b.high
    elif type(node) is exp.Sub:
        low, high = a.low - b.high, a.high - b.low
    else:
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(ends), max(ends)
    tree = exp.Paren(this=type(node)(this=operand(left), expression=operand(right)))
    whole = left.kind == right.kind == "int"
    return derive_value(tree, "int" if whole else "float", [left, right], Interval(low, high))


def divide_values(left: Value, right: Value, a: Interval, b: Interval) -> tuple[exp.Expr, Interval]:
    if sum(1 for _ in right.tree.walk()) > MAX_DIVISOR:
        # It is written three times, and three times again for each division that it stands in.
        raise Refused("a divisor is too long to be answered", sqlstate="54001")
    quotient = exp.Div(this=operand(left), expression=operand(right))
    nearest = min(abs(b.low), abs(b.high)) if b.low > 0 or b.high < 0 else 0.0
    smallest = max(nearest, TINY)
    if nearest >= TINY:
        ends = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
        return exp.Paren(this=quotient), Interval(min(ends), max(ends))
    near_zero = exp.LT(this=exp.Abs(this=operand(right)), expression=number(TINY))
    tree = exp.Case().when(near_zero, exp.Null(), copy=False).else_(quotient, copy=False)
    reach = a.size / (1.0 if right.kind == "int" else smallest)
    return tree, Interval(-reach, reach)


def truncate_number(tree: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="TRUNC", expressions=[tree])


@rule(exp.Div, exp.IntDiv)
def _div(node: exp.Binary, scope: Scope) -> Value:
    only(node, "this", "expression", "typed", "safe", "operator")
    left, right = _operands(node, scope)
    a, b = numbers(node, left, right)
    tree, bounds = divide_values(left, right, a, b)
    # PostgreSQL's / of two integers cuts off the fraction, as DuckDB's // does.
    whole = left.kind == right.kind == "int" and (type(node) is exp.IntDiv or bool(node.args.get("typed")))
    if type(node) is exp.IntDiv and not whole:
        raise refusal(node, "// needs whole numbers", hint="use / and FLOOR()", sqlstate="42883")
    if whole:
        return derive_value(truncate_number(tree), "int", [left, right], bounds)
    return derive_value(tree, "float", [left, right], bounds)


@rule(exp.Mod)
def _mod(node: exp.Mod, scope: Scope) -> Value:
    only(node, "this", "expression")
    left, right = _operands(node, scope)
    a, b = numbers(node, left, right)
    if not left.kind == right.kind == "int":
        raise refusal(node, "% needs whole numbers", sqlstate="42883")
    quotient, _ = divide_values(left, right, a, b)
    rest = exp.Mul(this=operand(right), expression=truncate_number(quotient))
    tree = exp.Paren(this=exp.Sub(this=operand(left), expression=rest))
    value = derive_value(
        tree, "int", [left, right], Interval(-b.size if a.low < 0 else 0.0, b.size if a.high > 0 else 0.0)
    )
    # Of numbers beyond 2**53 what is left may be anything: their quotient is rounded by more than the divisor.
    return replace(value, clamped=max(a.size, b.size) <= WIDEST)
