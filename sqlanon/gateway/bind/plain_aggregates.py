"""Aggregates without noise: over public tables, over noisy results, and over the rows of one person."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlanon.gateway.bind.calls import Call
from sqlanon.gateway.bind.conditions import condition
from sqlanon.gateway.bind.core import WIDEST_BOUNDS, fixed_point, quantum_for
from sqlanon.gateway.bind.row_work import weigh_comparison
from sqlanon.gateway.bind.scalars import Scope, bind, refusal
from sqlanon.gateway.bind.values import NUMBERS, UNDECLARED, Interval, Kind, Value, as_computed, double, number


def plain_aggregate(call: Call, scope: Scope) -> Value:
    """The aggregate as SQL has it."""
    tree: exp.Expr
    kind: Kind
    if call.argument is None:
        tree, kind = exp.Count(this=exp.Star()), "int"
    else:
        value = bind(call.argument, scope)
        stored = _stored(call.name, value)
        tree, kind = _tree(call, value if stored is None else replace(value, tree=value.shown))
        if stored is not None:
            tree = _filtered(tree, call, scope)
            return Value(
                as_computed(tree, stored), kind, UNDECLARED if kind in NUMBERS else None, clamped=False, stored=stored,
                plain=tree, computed=stored == "numeric", zoned=value.zoned,
            )  # fmt: skip
    tree = _filtered(tree, call, scope)
    return Value(tree, kind, UNDECLARED if kind in NUMBERS else None, clamped=False)


def _stored(name: str, value: Value) -> str | None:
    """The type of an aggregate of public values, where it is not that of its kind: as PostgreSQL has it."""
    base = value.stored.split("(")[0] if value.stored is not None else None
    if name in ("min", "max") and base in ("int2", "int4", "float4", "numeric", "timestamptz"):
        return base
    # The sum of int8 is a numeric, for it may be larger than an int8.
    whole = value.kind == "int" and base is None and value.source is not None
    return "numeric" if name == "sum" and value.public and (base == "numeric" or whole) else None


def _filtered(tree: exp.Expr, call: Call, scope: Scope) -> exp.Expr:
    if call.filter is None:
        return tree
    return exp.Filter(this=tree, expression=exp.Where(this=condition(call.filter, scope).tree))


def _tree(call: Call, value: Value) -> tuple[exp.Expr, Kind]:
    inner = value.tree.copy()
    if call.name == "count":
        return exp.Count(this=inner), "int"
    if call.name == "count_distinct":
        values = weigh_comparison(exp.Distinct(expressions=[inner]), value.longest, bytewise=True)
        return exp.Count(this=values), "int"
    if call.name in ("min", "max"):
        if value.kind == "bool":
            raise refusal(call.node, f"{call.name.upper()}() of a condition is not answered", sqlstate="42883")
        extreme = (exp.Min if call.name == "min" else exp.Max)(this=inner)
        return weigh_comparison(extreme, value.longest, bytewise=False), value.kind
    if value.kind not in NUMBERS:
        raise refusal(call.node, f"{call.name.upper()}() needs numbers, not {value.kind}", sqlstate="42883")
    if call.name in ("median", "quantile"):
        order = exp.Order(expressions=[exp.Ordered(this=double(inner), nulls_first=False)])
        within = exp.WithinGroup(this=exp.PercentileCont(this=number(call.alpha or 0.0)), expression=order)
        return within, "float"
    if call.name == "sum":
        return exp.Sum(this=inner), value.kind
    if call.name == "avg":
        return exp.Avg(this=double(inner)), "float"
    names = {("variance", True): "VAR_POP", ("variance", False): "VAR_SAMP"}
    names |= {("stddev", True): "STDDEV_POP", ("stddev", False): "STDDEV_SAMP"}
    return exp.Anonymous(this=names[call.name, call.population], expressions=[double(inner)]), "float"


def person_aggregate(call: Call, scope: Scope, most_rows: int) -> Value:
    """An aggregate over the rows of one person: exact, bounded, and the same whatever else the table holds.

    Sums run over whole quanta: the sum of doubles would depend on the order of the rows, which other persons'
    rows can change. COUNT and SUM are bounded by what `most_rows` rows could give.
    """
    if call.argument is None:
        tree = _filtered(exp.Count(this=exp.Star()), call, scope)
        return Value(tree, "int", Interval(0, most_rows), clamped=False)
    value = bind(call.argument, scope)
    if call.name in ("count", "count_distinct"):
        tree, _ = _tree(call, value)
        return Value(_filtered(tree, call, scope), "int", Interval(0, most_rows), clamped=False)
    if call.name in ("min", "max"):
        tree, kind = _tree(call, value)
        tree = _filtered(tree, call, scope)
        return Value(tree, kind, value.bounds, clamped=False, computed=value.computed, size=value.size)
    if call.name not in ("sum", "avg"):
        raise refusal(call.node, f"{call.name.upper()}() of each person's rows is not answered", hint="use SUM or AVG")
    if value.kind not in NUMBERS or value.bounds is None:
        raise refusal(call.node, f"{call.name.upper()}() needs numbers, not {value.kind}", sqlstate="42883")
    bounds = value.bounds
    if bounds.size > WIDEST_BOUNDS:
        raise refusal(
            call.node,
            f"{call.name.upper()}() of an expression without bounds is not answered",
            hint="bound it: LEAST(GREATEST(x, 0), 100), or have low and high declared for its columns in the policy",
        )
    quantum = quantum_for(bounds.size, value.kind == "int")
    whole = exp.cast(fixed_point(value, bounds, quantum, 0.0), exp.DataType.Type.BIGINT, copy=False)
    total = double(_filtered(exp.Sum(this=whole), call, scope))
    if quantum != 1.0:
        total = exp.Paren(this=exp.Mul(this=total, expression=double(number(quantum))))
    if call.name == "sum":
        low, high = min(bounds.low * most_rows, 0.0), max(bounds.high * most_rows, 0.0)
        return Value(total, value.kind, Interval(low, high), clamped=False, computed=True)
    rows = double(_filtered(exp.Count(this=whole.copy()), call, scope))
    mean = exp.Div(this=total, expression=exp.Nullif(this=rows, expression=number(0)))
    return Value(exp.Paren(this=mean), "float", bounds, clamped=False, computed=True)
