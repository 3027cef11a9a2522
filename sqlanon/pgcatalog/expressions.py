"""A rule for each kind of expression: which of its arguments it reads, and what it becomes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.pgcatalog import calls, operators
from sqlanon.pgcatalog.binder import CatalogBinder, Rule
from sqlanon.pgcatalog.bound_expression import NO_NAME, Bound, call, cast, constant, safe
from sqlanon.pgcatalog.kinds import (
    BOOL,
    DATE,
    INT4,
    INTERVAL,
    NAME,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    array_of,
)
from sqlanon.pgcatalog.operators import match_types
from sqlanon.pgcatalog.scope import SelectScope, fold_name, position
from sqlanon.pgcatalog.type_casts import written_type
from sqlanon.pgwire.types import PgType

WORDS = ("user", "current_role", "current_user", "session_user")
FIELDS = (
    "YEAR",
    "MONTH",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "EPOCH",
    "DOW",
    "DOY",
    "WEEK",
    "QUARTER",
    "CENTURY",
    "DECADE",
)


def literal(b: CatalogBinder, node: exp.Literal, scope: SelectScope) -> Bound:
    if node.is_string:
        return Bound(exp.Literal.string(node.this), UNKNOWN, value=str(node.this))
    return operators.number(str(node.this))


def string(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    """E'…' and $$…$$"""
    text = str(node.this)
    if "\0" in text:
        raise Refused("a text holds a zero byte", sqlstate="22021")
    return Bound(exp.Literal.string(text), UNKNOWN, value=text)


def null(b: CatalogBinder, node: exp.Null, scope: SelectScope) -> Bound:
    return Bound(exp.Null(), UNKNOWN, value=None)


def boolean(b: CatalogBinder, node: exp.Boolean, scope: SelectScope) -> Bound:
    return constant(bool(node.this), BOOL)


def parameter(b: CatalogBinder, node: exp.Parameter, scope: SelectScope) -> Bound:
    text = node.this.name if isinstance(node.this, exp.Expr) else str(node.this)
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise Refused("parameters are written $1, $2 …", sqlstate="42P02")
    return b.parameters.place(int(text))


def column(b: CatalogBinder, node: exp.Column, scope: SelectScope) -> Bound:
    if type(node.this) is exp.Star:
        raise Refused("* stands only in a list of columns", sqlstate="42601")
    name, table, schema = (
        fold_name(part) if part else None for part in (node.this, *map(node.args.get, ("table", "db")))
    )
    assert name is not None
    quoted = isinstance(node.this, exp.Identifier) and node.this.args.get("quoted")
    if name in WORDS and table is None and not quoted:
        return constant(b.view.principal, NAME).named(name)
    return scope.column(name, table, schema, position(node))


def paren(b: CatalogBinder, node: exp.Paren, scope: SelectScope) -> Bound:
    item = b.expression(node.this, scope)
    return replace(item, tree=safe(item.tree))


def dot(b: CatalogBinder, node: exp.Dot, scope: SelectScope) -> Bound:
    """schema.function(…), or (record).field"""
    if type(node.expression) is exp.Anonymous:
        if type(node.this) is not exp.Identifier:
            raise Refused("a function has at most a schema before its name", sqlstate="0A000")
        return calls.bind_call(b, node.expression, scope, fold_name(node.this))
    if type(node.expression) is not exp.Identifier or type(node.this) is exp.Identifier:
        raise Refused("names of so many parts are not answered here", sqlstate="0A000")
    item, name = b.expression(node.this, scope), fold_name(node.expression)
    if item.fields is None or name not in item.fields:
        raise Refused(f'column "{name[:80]}" not found in the value', sqlstate="42703", position=position(node))
    return _part(item, name)


def _part(item: Bound, name: str) -> Bound:
    assert item.fields is not None
    tree = call("struct_extract", item.tree.copy(), exp.Literal.string(name))
    return Bound(tree, item.fields[name], name, 2)


def every_field(b: CatalogBinder, node: exp.Dot, scope: SelectScope) -> list[Bound]:
    """(record).*"""
    item = b.expression(node.this, scope)
    if item.fields is None:
        raise Refused("only records have fields", sqlstate="42809")
    return [_part(item, name) for name in item.fields]


def bracket(b: CatalogBinder, node: exp.Bracket, scope: SelectScope) -> Bound:
    item = b.expression(node.this, scope)
    if item.type.element is None:
        raise Refused("only arrays have elements", sqlstate="42804")
    if len(node.expressions) != 1:
        raise Refused("arrays of more than one dimension are not answered here", sqlstate="0A000")
    (index,) = node.expressions
    first = 0 if item.type.name in ("int2vector", "oidvector") else 1
    if type(index) is exp.Slice:
        ends = [b.casts.to(b.expression(index.args[end], scope), INT4).tree for end in ("this", "expression")
                if isinstance(index.args.get(end), exp.Expr)]  # fmt: skip
        if len(ends) != 2:
            raise Refused("a slice has two ends", sqlstate="0A000")
        return Bound(call("list_slice", item.tree, *ends), array_of(item.type.element), item.name, item.weight)
    place = b.casts.to(b.expression(index, scope), INT4).tree
    if first == 0:
        place = exp.Add(this=safe(place), expression=exp.Literal.number(1))
    tree = call("list_extract", item.tree, call("greatest", place, exp.Literal.number(0)))
    return Bound(tree, item.type.element, item.name, item.weight)


def cast_to(b: CatalogBinder, node: exp.Cast, scope: SelectScope) -> Bound:
    kind, typmod = written_type(node.args["to"])
    inner = node.this
    while type(inner) is exp.Paren:
        inner = inner.this
    if type(inner) is exp.Array and kind.element is not None:
        item = array(b, inner, scope, kind.element)
    else:
        item = b.expression(node.this, scope)
    made = b.casts.to(item, kind, typmod)
    if item.weight > 1:
        return made
    return made.named((kind.element.name if kind.element and kind.name.startswith("_") else kind.name), 1)


def array(b: CatalogBinder, node: exp.Array, scope: SelectScope, kind: PgType | None = None) -> Bound:
    items = [b.expression(each, scope) for each in node.expressions]
    if not items and kind is None:
        raise Refused("cannot determine type of empty array", sqlstate="42P18", hint="cast it: ARRAY[]::text[]")
    nested = bool(items) and all(item.type.element is not None for item in items)
    element = (array_of(kind) if nested else kind) if kind is not None else b.casts.common(items, "ARRAY")
    made = array_of(element)
    if element.element is not None:
        return _deeper([b.casts.to(item, element) for item in items], made)
    items = b.casts.alike(items, element)
    if all(item.constant for item in items):
        return constant([item.value for item in items], made).named("array")
    return Bound(exp.Array(expressions=[item.tree for item in items]), made, "array", 2)


def _deeper(items: list[Bound], kind: PgType) -> Bound:
    """An array of one dimension more than its elements have."""
    if not all(item.constant and item.value is not None for item in items):
        raise Refused("arrays of arrays are built of constants here", sqlstate="0A000")
    values = [item.value for item in items]
    if any(not _same_box(values[0], each) for each in values):
        said = "multidimensional arrays must have array expressions with matching dimensions"
        raise Refused(said, sqlstate="2202E")
    return constant(values if values[0] else [], kind).named("array")


def _same_box(one: Any, other: Any) -> bool:
    if isinstance(one, list) != isinstance(other, list):
        return False
    return not isinstance(one, list) or (
        len(one) == len(other) and all(_same_box(*pair) for pair in zip(one, other, strict=True))
    )


def both(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    """AND, OR: chains of them may be long"""
    kind, parts = type(node), []
    while type(node) is kind:
        parts.append(node.expression)
        node = node.this
    first, *others = (safe(b.condition(each, scope)) for each in (node, *reversed(parts)))
    for other in others:
        first = kind(this=first, expression=other)
    return Bound(first, BOOL)


def negation(b: CatalogBinder, node: exp.Not, scope: SelectScope) -> Bound:
    return Bound(exp.Not(this=safe(b.condition(node.this, scope))), BOOL)


def is_(b: CatalogBinder, node: exp.Is, scope: SelectScope) -> Bound:
    wanted = node.expression
    if type(wanted) not in (exp.Null, exp.Boolean):
        raise Refused("IS is answered with NULL, TRUE and FALSE", sqlstate="0A000")
    item = b.expression(node.this, scope)
    tree = b.casts.to(item, BOOL, explicit=False).tree if type(wanted) is exp.Boolean else item.tree
    if item.unknown and type(wanted) is exp.Null:
        tree = b.casts.text(item).tree
    made = exp.Is(this=safe(tree), expression=wanted.copy())
    return Bound(exp.Not(this=exp.Paren(this=made)) if node.args.get("negate") else made, BOOL)


def between(b: CatalogBinder, node: exp.Between, scope: SelectScope) -> Bound:
    item, low, high = (b.expression(node.args[name], scope) for name in ("this", "low", "high"))
    item, low, high = match_types(b, "BETWEEN", [item, low, high])
    return Bound(exp.Between(this=safe(item.tree), low=safe(low.tree), high=safe(high.tree)), BOOL)


def in_(b: CatalogBinder, node: exp.In, scope: SelectScope) -> Bound:
    left = b.expression(node.this, scope)
    query = node.args.get("query")
    if query is not None:
        return operators.compare_values(b, exp.EQ, left, exp.Any(this=query), scope)
    if type(node.this) is exp.Tuple or not node.expressions:
        raise Refused("IN is answered with a list of values or a subquery", sqlstate="0A000")
    first, *others = match_types(b, "=", [left, *(b.expression(each, scope) for each in node.expressions)])
    return Bound(exp.In(this=safe(first.tree), expressions=[other.tree for other in others]), BOOL)


def case(b: CatalogBinder, node: exp.Case, scope: SelectScope) -> Bound:
    ifs, default = node.args["ifs"], node.args.get("default")
    last = b.expression(default, scope) if default is not None else Bound(exp.Null(), UNKNOWN, value=None)
    operand: exp.Expr | None = None
    if node.this is None:
        conditions = [b.condition(each.this, scope) for each in ifs]
    else:
        first, *others = match_types(
            b, "=", [b.expression(each, scope) for each in (node.this, *(each.this for each in ifs))]
        )
        operand, conditions = first.tree, [other.tree for other in others]
    values = [b.expression(each.args["true"], scope) for each in ifs]
    kind = b.casts.common([last, *values], "CASE")
    default_value, *made = b.casts.alike([last, *values], kind)
    branches = [exp.If(this=condition, true=value.tree) for condition, value in zip(conditions, made, strict=True)]
    tree = exp.Case(this=operand, ifs=branches, default=default_value.tree)
    name, weight = (last.name, 2) if last.weight > 1 else ("case", 1)
    return Bound(exp.Paren(this=tree), kind, name, weight)


def subquery(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
    """A query that stands for one value."""
    plan = b.query(node, scope)
    if len(plan.items) != 1:
        raise Refused("subquery must return only one column", sqlstate="42601")
    plan.settle()
    item = plan.items[0]
    return Bound(exp.Subquery(this=plan.tree()), item.type, plan.names[0], 2 if plan.names[0] != NO_NAME else 0,
                 fields=item.fields)  # fmt: skip


def exists(b: CatalogBinder, node: exp.Exists, scope: SelectScope) -> Bound:
    plan = b.query(node.this, scope)
    plan.settle()
    return Bound(exp.Exists(this=plan.tree()), BOOL, "exists", 2)


def collate(b: CatalogBinder, node: exp.Collate, scope: SelectScope) -> Bound:
    """Everything is ordered by bytes here, as the collations C and, in this database, the default do."""
    wanted = node.expression
    name = fold_name(wanted.this if isinstance(wanted, exp.Column) else wanted)
    if name not in ("default", "c", "C", "posix", "POSIX", "ucs_basic"):
        raise Refused(f'collation "{name[:80]}" does not exist', sqlstate="42704")
    item = b.expression(node.this, scope)
    return b.casts.to(item, TEXT) if item.unknown else item


def operator(b: CatalogBinder, node: exp.Operator, scope: SelectScope) -> Bound:
    """x OPERATOR(pg_catalog.~) y"""
    symbol = str(node.args["operator"]).replace(" ", "").removeprefix("pg_catalog.")
    negate = symbol.startswith("!") and symbol != "!="
    kind = operators.MATCHED.get(symbol[1:] if negate else symbol)
    if kind is None:
        raise Refused("this operator is not answered here", sqlstate="42883")
    item = b.expression(kind(this=node.this, expression=node.expression), scope)
    return Bound(exp.Not(this=safe(item.tree)), BOOL) if negate else item


def interval(b: CatalogBinder, node: exp.Interval, scope: SelectScope) -> Bound:
    unit = node.args.get("unit")
    if type(node.this) is not exp.Literal or not (unit is None or type(unit) is exp.Var):
        raise Refused("this form of an interval is not answered here", sqlstate="0A000")
    text = node.this.name
    if unit is not None:
        if not re.fullmatch(r" *[+-]?[0-9]+ *", text):
            raise Refused("a unit after an interval is answered with a whole number alone", sqlstate="0A000")
        text = f"{text} {unit.name.lower()}"
    return constant(b.casts.read(text, INTERVAL), INTERVAL).named("interval", 1)


def extract(b: CatalogBinder, node: exp.Extract, scope: SelectScope) -> Bound:
    what = node.this.name.upper()
    item = b.expression(node.expression, scope)
    if what not in FIELDS or item.type.name not in ("date", "time", "timestamp", "timestamptz", "interval"):
        raise Refused("this EXTRACT is not answered here", sqlstate="0A000")
    tree = call("date_part", exp.Literal.string(what.lower()), item.tree)
    scale = 6 if what in ("SECOND", "EPOCH") and item.type.name != "date" else 0
    return Bound(cast(tree, f"DECIMAL(38,{scale})"), NUMERIC, "extract", 2)


def at_time_zone(b: CatalogBinder, node: exp.AtTimeZone, scope: SelectScope) -> Bound:
    items = [b.expression(node.args["zone"], scope), b.expression(node.this, scope)]
    return calls.apply_function(b, "timezone", items)


def moment(tree: Callable[[], exp.Expr], kind: PgType, name: str) -> Rule:
    """CURRENT_DATE and its like."""

    def rule(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
        return Bound(tree(), kind, name, 2)

    return rule


def word(name: str) -> Rule:
    """CURRENT_USER and its like, which are written without parentheses."""

    def rule(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> Bound:
        return calls.session(b, name, [])

    return rule


def _now() -> exp.Expr:
    return call("now")


def _here() -> exp.Expr:
    return cast(call("now"), "TIMESTAMP")


TWO = frozenset({"this", "expression"})
ONE = frozenset({"this"})
NOTHING: frozenset[str] = frozenset()
RULES: dict[type[exp.Expr], tuple[frozenset[str], Rule]] = {
    exp.Literal: (frozenset({"this", "is_string"}), literal),
    exp.ByteString: (ONE, string), exp.RawString: (ONE, string), exp.National: (ONE, string),
    exp.Null: (NOTHING, null), exp.Boolean: (ONE, boolean), exp.Parameter: (ONE, parameter),
    exp.Column: (frozenset({"this", "table", "db"}), column), exp.Paren: (ONE, paren), exp.Dot: (TWO, dot),
    exp.Bracket: (frozenset({"this", "expressions"}), bracket), exp.Cast: (frozenset({"this", "to"}), cast_to),
    exp.Array: (frozenset({"expressions"}), array), exp.And: (TWO, both), exp.Or: (TWO, both), exp.Not: (ONE, negation),
    exp.Is: (TWO | {"negate"}, is_), exp.Between: (frozenset({"this", "low", "high"}), between),
    exp.In: (frozenset({"this", "expressions", "query"}), in_),
    exp.Case: (frozenset({"this", "ifs", "default"}), case), exp.Subquery: (ONE | {"with_"}, subquery),
    exp.Exists: (ONE, exists), exp.Collate: (TWO, collate), exp.Operator: (TWO | {"operator"}, operator),
    exp.Interval: (frozenset({"this", "unit"}), interval), exp.Extract: (TWO, extract),
    exp.AtTimeZone: (frozenset({"this", "zone"}), at_time_zone),
    **dict.fromkeys(operators.COMPARED, (TWO, operators.comparison)),
    **{kind: (TWO | {"negate"}, operators.pattern)
       for kind in (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike)},
    exp.ArrayContainsAll: (TWO, operators.containment), exp.ArrayOverlaps: (TWO, operators.containment),
    exp.Escape: (TWO, operators.like_escape), exp.DPipe: (TWO | {"safe"}, operators.concatenation),
    **{kind: (TWO | {"typed", "safe"}, operators.arithmetic) for kind in operators.SYMBOLS},
    **dict.fromkeys(operators.BITS, (TWO, operators.bits)),
    exp.Neg: (ONE, operators.negative), exp.BitwiseNot: (ONE, operators.invert_bits), exp.Pow: (TWO, operators.power),
    exp.Anonymous: (frozenset({"this", "expressions"}), calls.plain),
    exp.Unnest: (frozenset({"expressions"}), calls.bind_unnest),
    exp.Substring: (frozenset({"this", "start", "length"}), calls.substring),
    exp.Trim: (frozenset({"this", "position", "expression"}), calls.trim),
    exp.StrPosition: (frozenset({"this", "substr"}), calls.str_position),
    exp.Filter: (TWO, calls.bind_filter),
    exp.Window: (frozenset({"this", "partition_by", "order", "over"}), calls.window),
    exp.CurrentDate: (NOTHING, moment(lambda: cast(call("now"), "DATE"), DATE, "current_date")),
    exp.CurrentTimestamp: (NOTHING, moment(_now, TIMESTAMPTZ, "current_timestamp")),
    exp.Localtimestamp: (NOTHING, moment(_here, TIMESTAMP, "localtimestamp")),
    exp.Localtime: (NOTHING, moment(lambda: cast(_here(), "TIME"), TIME, "localtime")),
    exp.CurrentUser: (NOTHING, word("current_user")), exp.SessionUser: (NOTHING, word("session_user")),
    exp.CurrentRole: (NOTHING, word("current_role")), exp.CurrentCatalog: (NOTHING, word("current_catalog")),
    exp.CurrentSchema: (NOTHING, word("current_schema")),
}  # fmt: skip
