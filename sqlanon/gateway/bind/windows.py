"""Window functions: over noisy and public rows freely, over private rows only inside one person."""

from __future__ import annotations

from sqlglot import exp

from sqlanon.gateway.bind.calls import call_of
from sqlanon.gateway.bind.core import bytewise
from sqlanon.gateway.bind.plain_aggregates import plain_aggregate
from sqlanon.gateway.bind.row_work import SORTING, weigh_comparison
from sqlanon.gateway.bind.scalars import Scope, bind, only, refusal, spelling
from sqlanon.gateway.bind.sources import FromRows
from sqlanon.gateway.bind.values import UNDECLARED, Interval, Value, number

RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
NEIGHBOURS = (exp.Lag, exp.Lead)
ENDS = (exp.FirstValue, exp.LastValue)


def window(node: exp.Window, scope: Scope, private: FromRows | None) -> Value:
    """A window function; `private` is given where it runs over rows of persons."""
    only(node, "this", "partition_by", "order", "spec", "over")
    function = node.this
    value = _function(function, scope, private is not None)
    partition = [bind(part, scope) for part in node.args.get("partition_by") or []]
    orders = bind_order(node.args.get("order"), scope)
    if private is not None:
        if not any(part.unit for part in partition):
            raise refusal(
                node,
                "a window over private rows compares persons with each other",
                hint="put the privacy unit into PARTITION BY",
            )
        if node.args.get("spec") is not None:
            raise refusal(node, "a window frame over private rows is not answered")
        if type(function) in (exp.RowNumber, *NEIGHBOURS, *ENDS):
            # Ties are broken by the row itself: their order must not depend on where other persons' rows lie.
            orders = [*orders, *(exp.Ordered(this=each, nulls_first=False) for each in _row_columns(private))]
    tree = exp.Window(
        this=value.tree,
        partition_by=[part.tree for part in partition],
        order=exp.Order(expressions=orders) if orders else None,
        spec=_spec(node.args.get("spec")),
        over="OVER",
    )
    return Value(tree, value.kind, value.bounds, clamped=False, computed=value.computed, size=value.size)


def _row_columns(rows: FromRows) -> list[exp.Expr]:
    columns = [(source, name, value) for source in rows.sources for name, value in source.relation.columns.items()]
    # Of texts all bytes count: what a collation takes for the same would have no order. What is read as text may be of
    # another type, which has no collation.
    return [
        bytewise(exp.cast(source.value(name).tree, "text")) if value.kind == "text" else source.tree(name)
        for source, name, value in columns
        if value.kind != "opaque"
    ]


def bind_order(node: exp.Expr | None, scope: Scope) -> list[exp.Expr]:
    if node is None:
        return []
    only(node, "expressions")
    made: list[exp.Expr] = []
    for each in node.expressions:
        only(each, "this", "desc", "nulls_first")
        value = bind(each.this, scope)
        placed = exp.Ordered(
            this=value.tree,
            desc=bool(each.args.get("desc")),
            nulls_first=bool(each.args.get("nulls_first")),
        )
        made.append(weigh_comparison(placed, SORTING * value.longest, bytewise=False))
    return made


def _function(node: exp.Expr, scope: Scope, private: bool) -> Value:
    if type(node) in RANKS:
        only(node)
        return Value(type(node)(), "int", Interval(1, 2**40), clamped=False)
    if type(node) in NEIGHBOURS:
        only(node, "this", "offset", "default")
        value = bind(node.this, scope)
        given = bind(node.args["offset"], scope) if node.args.get("offset") is not None else None
        if given is not None:
            given.must_be("int")
        offset = 1 if given is None else given.literal
        if type(offset) is not int or not 0 <= offset <= 1000:
            raise refusal(node, "LAG and LEAD take a literal number of rows")
        if node.args.get("default") is not None:
            raise refusal(node, "a default in LAG and LEAD is not answered", hint="use COALESCE")
        tree = type(node)(this=value.tree, offset=number(offset))
        return Value(tree, value.kind, value.bounds, clamped=value.clamped, computed=value.computed, size=value.size)
    if type(node) in ENDS:
        only(node, "this")
        value = bind(node.this, scope)
        tree = type(node)(this=value.tree)
        return Value(tree, value.kind, value.bounds, clamped=value.clamped, computed=value.computed, size=value.size)
    call = call_of(node, scope)
    if call is None:
        raise refusal(node, f"{spelling(node)} is not answered as a window function")
    if private and call.name not in ("count", "min", "max"):
        name = call.name.upper()
        raise refusal(node, f"{name}() in a window over private rows is not answered", hint="GROUP BY the unit")
    if private:
        bounds: Interval | None = UNDECLARED
        if call.name != "count" and call.argument is not None:
            bounds = bind(call.argument, scope).bounds
        plain = plain_aggregate(call, scope)
        return Value(plain.tree, plain.kind, bounds, clamped=False)
    return plain_aggregate(call, scope)


def _spec(node: exp.Expr | None) -> exp.Expr | None:
    """A frame, from its known words and literal numbers only."""
    if node is None:
        return None
    only(node, "kind", "start", "start_side", "end", "end_side")
    for name in ("start", "end"):
        part = node.args.get(name)
        if not (part is None or isinstance(part, str) or (type(part) is exp.Literal and not part.is_string)):
            raise refusal(node, "a window frame takes literal numbers")
    return node.copy()
