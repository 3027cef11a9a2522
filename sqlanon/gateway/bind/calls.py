"""Aggregate calls as the analyst writes them, in either dialect, brought to one form."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlanon.gateway.bind.scalars import Scope, bind, only, refusal, spelling

NAMES: dict[type, str] = {
    exp.Count: "count",
    exp.CountIf: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Variance: "variance",
    exp.VariancePop: "variance",
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev",
    exp.StddevPop: "stddev",
    exp.Median: "median",
    exp.PercentileCont: "quantile",
    exp.PercentileDisc: "quantile",
    exp.Quantile: "quantile",
    exp.Min: "min",
    exp.Max: "max",
}


@dataclass(frozen=True)
class Call:
    node: exp.Expr
    name: str  # as policies name it: count, count_distinct, sum, …
    argument: exp.Expr | None  # None: COUNT(*)
    filter: exp.Expr | None = None
    population: bool = False  # VAR_POP and STDDEV_POP
    alpha: float | None = None


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc | exp.WithinGroup) or (isinstance(node, exp.Filter) and is_aggregate(node.this))


def holds_aggregate(node: exp.Expr) -> bool:
    """Whether an expression holds an aggregate outside of windows and subqueries."""
    if isinstance(node, exp.Query | exp.Window):
        return isinstance(node, exp.Window) and any(holds_aggregate(part) for part in _window_parts(node))
    if is_aggregate(node):
        return True
    return any(holds_aggregate(part) for part in node.iter_expressions())


def _window_parts(node: exp.Window) -> list[exp.Expr]:
    inner = node.this
    parts = list(inner.iter_expressions()) if isinstance(inner, exp.Expression) else []
    return [*parts, *(node.args.get("partition_by") or []), *([node.args["order"]] if node.args.get("order") else [])]


def call_of(node: exp.Expr, scope: Scope) -> Call | None:
    """The call that a node is; None if it is no aggregate. An argument that is not understood is refused."""
    if isinstance(node, exp.Filter):
        only(node, "this", "expression")
        inner = call_of(node.this, scope)
        if inner is None:
            raise refusal(node, "FILTER stands after an aggregate", sqlstate="42601")
        where = node.expression
        only(where, "this")
        if inner.filter is not None:
            raise refusal(node, "two filters on one aggregate are not answered")
        return Call(node, inner.name, inner.argument, where.this, inner.population, inner.alpha)
    if isinstance(node, exp.WithinGroup):
        return _within_group(node, scope)
    name = NAMES.get(type(node))
    if name is None:
        if isinstance(node, exp.AggFunc):
            name = node.meta.get("written", node.sql_name())[:60]
            raise refusal(node, f"the aggregate {name}() is not answered")
        return None
    if name == "count":
        return _count(node)
    if type(node) in (exp.PercentileCont, exp.PercentileDisc):
        only(node, "this", "expression")
        return Call(node, "quantile", node.this, alpha=_alpha(node, node.expression, scope))
    if type(node) is exp.Quantile:
        only(node, "this", "quantile")
        return Call(node, "quantile", node.this, alpha=_alpha(node, node.args["quantile"], scope))
    only(node, "this")
    if type(node.this) in (exp.Distinct, exp.Order):
        raise refusal(node, f"{spelling(node.this)} in {name.upper()}() is not answered")
    alpha = {"median": 0.5, "min": 0.01, "max": 0.99}.get(name)
    return Call(node, name, node.this, population=type(node) in (exp.VariancePop, exp.StddevPop), alpha=alpha)


def _count(node: exp.Expr) -> Call:
    only(node, "this", "big_int")
    inside = node.this
    if type(node) is exp.CountIf:
        return Call(node, "count", None, filter=inside)
    if inside is None or type(inside) is exp.Star:
        if inside is not None:
            only(inside)
        return Call(node, "count", None)
    if type(inside) is exp.Distinct:
        only(inside, "expressions")
        if len(inside.expressions) != 1:
            raise refusal(node, "COUNT(DISTINCT) takes one column")
        return Call(node, "count_distinct", inside.expressions[0])
    return Call(node, "count", inside)


def _within_group(node: exp.WithinGroup, scope: Scope) -> Call:
    only(node, "this", "expression")
    function, order = node.this, node.expression
    if type(function) not in (exp.PercentileCont, exp.PercentileDisc):
        raise refusal(node, "WITHIN GROUP is answered for PERCENTILE_CONT and PERCENTILE_DISC only")
    only(function, "this")
    only(order, "expressions")
    if len(order.expressions) != 1:
        raise refusal(node, "WITHIN GROUP takes one column")
    ordered = order.expressions[0]
    only(ordered, "this", "nulls_first", "desc")
    alpha = _alpha(node, function.this, scope)
    return Call(node, "quantile", ordered.this, alpha=1 - alpha if ordered.args.get("desc") else alpha)


def _alpha(node: exp.Expr, given: exp.Expr, scope: Scope) -> float:
    bound = bind(given, scope)
    bound.must_be("float")
    value = bound.literal
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise refusal(node, "a quantile takes one literal between 0 and 1", sqlstate="22003")
    return round(float(value), 3)
