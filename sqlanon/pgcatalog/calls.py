"""Calls of functions: those of functions.txt, those that tell of the session, aggregates, windows, and a few more."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.pgcatalog import sets
from sqlanon.pgcatalog.binder import CatalogBinder
from sqlanon.pgcatalog.bound_expression import Bound, call, cast, constant, safe
from sqlanon.pgcatalog.functions import argument_types, choose_function, no_function, result_type
from sqlanon.pgcatalog.kinds import (
    BOOL,
    BY_NAME,
    FLOAT8,
    INT4,
    INT8,
    JSON,
    NAME,
    NUMBERS,
    NUMERIC,
    OIDS,
    STRINGS,
    TEXT,
    TEXTS,
    array_of,
    duck_type,
)
from sqlanon.pgcatalog.operators import match_types
from sqlanon.pgcatalog.scope import SelectScope

AGGREGATES = ("count", "min", "max", "sum", "avg", "bool_and", "bool_or", "every", "array_agg", "string_agg")
RANKS = ("row_number", "rank", "dense_rank")


def plain(b: CatalogBinder, node: exp.Anonymous, scope: SelectScope) -> Bound:
    return bind_call(b, node, scope, None)


def bind_call(b: CatalogBinder, node: exp.Anonymous, scope: SelectScope, schema: str | None) -> Bound:
    """A call by name; without a schema, or with one of the catalog's."""
    name = str(node.this if isinstance(node.this, str) else node.this.name).lower()
    if schema not in (None, "pg_catalog", "information_schema"):
        raise Refused(f"function {str(schema)[:40]}.{name[:80]} does not exist", sqlstate="42883")
    if schema == "information_schema" and name != "_pg_expandarray":
        raise Refused(f"function information_schema.{name[:80]} does not exist", sqlstate="42883")
    if name in AGGREGATES:
        return aggregate(b, name, node.expressions, scope)
    if name == "array" and schema is None:
        return _array_of_rows(b, node.expressions, scope)
    if name in RANKS:
        raise Refused(f"window function {name} requires an OVER clause", sqlstate="42P20")
    items = [b.expression(each, scope) for each in node.expressions]
    return apply_function(b, name, items).named(name)


def apply_function(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if name in sets.SETS:
        tree, kind, fields = sets.rows(b, name, items)
        return Bound(call("unnest", tree), kind, name, 2, fields=fields)
    special = SPECIAL.get(name)
    if special is not None:
        return special(b, name, items).named(name)
    function = choose_function(name, items)
    b.needs.functions.add(function)
    kinds = argument_types(function, items)
    trees = [b.casts.to(item, kind).tree for item, kind in zip(items, kinds, strict=True)]
    result, tree = result_type(function, kinds), call(function.macro, *trees)
    if result.name in ("int2", "int4", "int8", "float8") or result.name in OIDS:
        tree = cast(tree, duck_type(result))
    return Bound(tree, result, name, 2)


# What a session tells of itself.


def session(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if items:
        raise no_function(name, items)
    if name in ("current_database", "current_catalog"):
        return constant(b.view.metadata.database, NAME).named(name)
    if name == "current_schema":
        return constant("public", NAME).named(name)
    if name == "version":
        return constant(f"PostgreSQL {b.view.metadata.version}, served by sqlanon", TEXT).named(name)
    if name == "pg_backend_pid":
        return constant(b.session.process, INT4).named(name)
    return constant(b.view.principal, NAME).named(name)


def _schemas(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if len(items) != 1:
        raise no_function(name, items)
    item = b.casts.to(items[0], BOOL)
    found = ["pg_catalog", "public"] if item.constant and item.value else ["public"]
    return constant(found, array_of(NAME))


def _setting(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if len(items) not in (1, 2):
        raise no_function(name, items)
    item = b.casts.to(items[0], TEXT)
    if not item.constant:
        names, values = zip(*sorted(b.session.settings.items()), strict=True)
        known = call("map", *(constant(list(each), TEXTS).tree for each in (names, values)))
        return Bound(
            call("list_extract", call("map_extract", known, call("lower", item.tree)), exp.Literal.number(1)), TEXT
        )
    value = b.session.settings.get(str(item.value).lower())
    missing = len(items) == 2 and items[1].constant and b.casts.to(items[1], BOOL).value
    if value is None and not missing:
        said = f'unrecognized configuration parameter "{str(item.value)[:80]}"'
        raise Refused(said, sqlstate="42704")
    return constant(value, TEXT)


# Functions that take values of any type.


def _coalesce(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if not items:
        raise Refused(f"{name} takes at least one value", sqlstate="42601")
    kind = b.casts.common(items, name.upper())
    return Bound(call(name, *(item.tree for item in b.casts.alike(items, kind))), kind)


def _nullif(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if len(items) != 2:
        raise Refused("NULLIF takes two values", sqlstate="42601")
    left, right = match_types(b, "=", items)
    kind = left.type if items[0].unknown else items[0].type
    return Bound(call("nullif", left.tree, right.tree), kind if duck_type(kind) == duck_type(left.type) else left.type)


def _concat(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if len(items) < (2 if name == "concat_ws" else 1):
        raise no_function(name, items)
    return Bound(call("short", call(name, *(_written(b, item) for item in items))), TEXT)


def _written(b: CatalogBinder, item: Bound) -> exp.Expr:
    """A value as a client would see it: a boolean as t or f, unlike in a cast."""
    tree = b.casts.text(item).tree
    return call("left", tree, exp.Literal.number(1)) if item.type.oid == BOOL.oid else tree


def _format(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    """format() with %s, %I and %L"""
    if not items or not isinstance(items[0].value, str):
        raise Refused("format() takes its pattern as a constant", sqlstate="0A000")
    parts: list[exp.Expr] = [exp.Literal.string("")]
    given = iter(items[1:])
    for piece in re.split(r"(%[sIL%])", items[0].value):
        if piece == "%%" or not re.fullmatch(r"%[sIL]", piece):
            if "%" in piece.removeprefix("%%"):
                raise Refused("format() is answered with %s, %I and %L", sqlstate="0A000")
            parts.append(exp.Literal.string(piece.replace("%%", "%")))
            continue
        item = next(given, None)
        if item is None:
            raise Refused("too few arguments for format()", sqlstate="22023")
        shown = Bound(_written(b, item), TEXT)
        quoting = {"%I": "quote_ident", "%L": "quote_literal"}.get(piece)
        parts.append(apply_function(b, quoting, [shown]).tree if quoting else shown.tree)
    return Bound(call("short", call("concat", *parts)), TEXT)


def _typeof(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if len(items) != 1:
        raise no_function(name, items)
    return constant(items[0].type.oid, BY_NAME["regtype"])


def _json(b: CatalogBinder, item: Bound) -> exp.Expr:
    """A value as JSON."""
    if item.unknown:
        item = b.casts.to(item, TEXT)
    shown = b.casts.text(item).tree
    if item.type.name in STRINGS or item.type.name not in (*NUMBERS, "bool", "oid", "json", "jsonb"):
        shown = cast(call("to_json", shown), "VARCHAR")
    return call("coalesce", shown, exp.Literal.string("null"))


def _json_object(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    if len(items) % 2:
        raise Refused("argument list must have even number of elements", sqlstate="22023")
    parts: list[exp.Expr] = []
    for place in range(0, len(items), 2):
        key = cast(call("to_json", b.casts.text(items[place]).tree), "VARCHAR")
        parts += [
            exp.Literal.string(", " if place else "{"),
            key,
            exp.Literal.string(" : "),
            _json(b, items[place + 1]),
        ]
    parts = parts or [exp.Literal.string("{")]
    return Bound(call("short", call("concat", *parts, exp.Literal.string("}"))), JSON)


def _json_array(b: CatalogBinder, name: str, items: list[Bound]) -> Bound:
    parts: list[exp.Expr] = [exp.Literal.string("[")]
    for place, item in enumerate(items):
        parts += [exp.Literal.string(", ")] * bool(place) + [_json(b, item)]
    return Bound(call("short", call("concat", *parts, exp.Literal.string("]"))), JSON)


Special = Callable[[CatalogBinder, str, list[Bound]], Bound]
SPECIAL: dict[str, Special] = {
    **dict.fromkeys(
        ("current_database", "current_catalog", "current_user", "session_user", "user", "current_role",
         "current_schema", "version", "pg_backend_pid"), session),
    "current_schemas": _schemas, "current_setting": _setting, "coalesce": _coalesce, "greatest": _coalesce,
    "least": _coalesce, "nullif": _nullif, "concat": _concat, "concat_ws": _concat, "pg_typeof": _typeof,
    "format": _format, "json_build_object": _json_object, "json_build_array": _json_array,
}  # fmt: skip


def _array_of_rows(b: CatalogBinder, expressions: Sequence[exp.Expr], scope: SelectScope) -> Bound:
    """ARRAY(SELECT …)"""
    if len(expressions) != 1 or not isinstance(expressions[0], exp.Query):
        raise Refused("ARRAY(…) takes a subquery", sqlstate="42601")
    plan = b.query(expressions[0], scope)
    if len(plan.items) != 1:
        raise Refused("subquery must return only one column", sqlstate="42601")
    plan.settle()
    return Bound(call("array", plan.tree()), array_of(plan.items[0].type), "array", 2)


# Aggregates and windows.


def aggregate(b: CatalogBinder, name: str, expressions: Sequence[exp.Expr], scope: SelectScope) -> Bound:
    arguments, distinct, order = list(expressions), False, None
    if arguments and type(arguments[-1]) is exp.Order:
        ordered = arguments.pop()
        order = [_ordered(b, each, scope) for each in ordered.expressions]
        if ordered.this is not None:
            arguments.append(ordered.this)
    if len(arguments) >= 1 and type(arguments[0]) is exp.Distinct:
        if arguments[0].args.get("on") is not None:
            raise Refused("this DISTINCT is not answered here", sqlstate="0A000")
        distinct, arguments = True, [*arguments[0].expressions, *arguments[1:]]
    if name == "count" and len(arguments) == 1 and type(arguments[0]) is exp.Star:
        return Bound(exp.Count(this=exp.Star()), INT8, name, 2)
    items = [b.expression(each, scope) for each in arguments]
    if len(items) != (2 if name == "string_agg" else 1):
        raise no_function(name, items)
    items = [b.casts.to(item, TEXT) if item.unknown else item for item in items]
    return _aggregated(b, name, items, distinct, order).named(name)


def _aggregated(b: CatalogBinder, name: str, items: list[Bound], distinct: bool, order: list[exp.Expr] | None) -> Bound:
    first = items[0]
    if name in ("bool_and", "bool_or", "every"):
        return Bound(_made("bool_or" if name == "bool_or" else "bool_and",
                           [b.casts.to(first, BOOL, explicit=False).tree], distinct, order), BOOL)  # fmt: skip
    if name == "count":
        return Bound(_made(name, [first.tree], distinct, order), INT8)
    if name == "array_agg":
        return Bound(_made(name, [first.tree], distinct, order), array_of(first.type))
    if name == "string_agg":
        trees = [b.casts.to(item, TEXT, explicit=False).tree for item in items]
        return Bound(call("short", _made(name, trees, distinct, order)), TEXT)
    if name in ("min", "max"):
        if first.type.element is not None or first.type.name in ("json", "jsonb", "record", "bool", "uuid"):
            raise no_function(name, items)
        kind = TEXT if first.type.name in STRINGS else first.type
        return Bound(_made(name, [first.tree], distinct, order), kind)
    if first.type.name not in NUMBERS:
        raise no_function(name, items)
    wide = {"int2": INT8, "int4": INT8, "int8": NUMERIC, "numeric": NUMERIC}.get(first.type.name, FLOAT8)
    if name == "avg":
        wide = NUMERIC if wide is INT8 else wide
    made = _made(name, [first.tree], distinct, order)
    scale = "DECIMAL(38,16)" if name == "avg" else "DECIMAL(38,0)" if first.type.name == "int8" else None
    to = duck_type(wide) if wide is not NUMERIC else scale
    return Bound(cast(made, to) if to else made, wide)


def _made(name: str, trees: list[exp.Expr], distinct: bool, order: list[exp.Expr] | None) -> exp.Expr:
    arguments: list[exp.Expr] = [exp.Distinct(expressions=trees[:1]), *trees[1:]] if distinct else trees
    if order:
        arguments[-1] = exp.Order(this=arguments[-1], expressions=order)
    return exp.Anonymous(this=name, expressions=arguments)


def _ordered(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> exp.Expr:
    """A key of ORDER BY in an aggregate or a window, where numbers are no places."""
    if type(node) is not exp.Ordered or node.args.get("with_fill"):
        raise Refused("this ORDER BY is not answered here", sqlstate="0A000")
    item = b.expression(node.this, scope)
    item = b.casts.to(item, TEXT) if item.unknown else item
    return order_term(item.tree, node)


def order_term(tree: exp.Expr, node: exp.Expr) -> exp.Expr:
    """With what PostgreSQL does by itself said aloud: NULL is larger than everything."""
    down = bool(node.args.get("desc"))
    return exp.Ordered(this=tree, desc=down, nulls_first=bool(node.args.get("nulls_first")))


def bind_filter(b: CatalogBinder, node: exp.Filter, scope: SelectScope) -> Bound:
    inner, where = node.this, node.expression
    name = str(inner.this).lower() if type(inner) is exp.Anonymous else ""
    if name not in AGGREGATES or type(where) is not exp.Where:
        raise Refused("FILTER stands after an aggregate", sqlstate="42809")
    item = b.expression(inner, scope)
    tree = item.tree
    holder = tree.find(exp.Anonymous, exp.Count) if name == "count" else None
    condition = exp.Where(this=b.condition(where.this, scope))
    if isinstance(tree, exp.Cast):
        made: exp.Expr = exp.Cast(this=exp.Filter(this=tree.this, expression=condition), to=tree.args["to"])
    elif isinstance(tree, exp.Anonymous) and tree.this == "short":
        made = call("short", exp.Filter(this=tree.expressions[0], expression=condition))
    else:
        made = exp.Filter(this=holder or tree, expression=condition)
    return replace(item, tree=made)


def window(b: CatalogBinder, node: exp.Window, scope: SelectScope) -> Bound:
    inner = node.this
    if type(inner) is exp.Dot and type(inner.this) is exp.Identifier and inner.this.name.lower() == "pg_catalog":
        inner = inner.expression
    name = str(inner.this).lower() if type(inner) is exp.Anonymous else ""
    if str(node.args.get("over") or "OVER").upper() != "OVER":
        raise Refused("this window is not answered here", sqlstate="0A000")
    if name in RANKS and not inner.expressions:
        item = Bound(call(name), INT8, name, 2)
    elif name in ("count", "min", "max", "bool_and", "bool_or"):
        item = b.expression(inner, scope)
    else:
        raise Refused("this window function is not answered here", sqlstate="0A000")
    keys = [safe(b.expression(each, scope).tree) for each in node.args.get("partition_by") or []]
    order = node.args.get("order")
    ordering = exp.Order(expressions=[_ordered(b, each, scope) for each in order.expressions]) if order else None
    return replace(item, tree=exp.Window(this=item.tree, partition_by=keys, order=ordering, over="OVER"))


# Functions that have a syntax of their own.


def bind_unnest(b: CatalogBinder, node: exp.Unnest, scope: SelectScope) -> Bound:
    return apply_function(b, "unnest", [b.expression(each, scope) for each in node.expressions])


def substring(b: CatalogBinder, node: Any, scope: SelectScope) -> Bound:
    arguments = [node.args[name] for name in ("this", "start", "length") if node.args.get(name) is not None]
    return apply_function(b, "substring", [b.expression(each, scope) for each in arguments])


def trim(b: CatalogBinder, node: Any, scope: SelectScope) -> Bound:
    place = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}[place]
    items = [b.expression(each, scope) for each in (node.this, node.expression) if each is not None]
    return apply_function(b, name, items)


def str_position(b: CatalogBinder, node: Any, scope: SelectScope) -> Bound:
    return apply_function(b, "position", [b.expression(node.args[name], scope) for name in ("substr", "this")])
