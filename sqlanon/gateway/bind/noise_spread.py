"""How far noise moves a column of an answer, where statement and policy alone tell it.

A sum of aggregates, each times a number, is moved by no more than the sum of their noise, each times the size of its
number. What changes by no more than its argument (CAST, ROUND but for the rounding, ABS, GREATEST with a number) is
moved no further. How far a quotient, a product or a quantile is moved depends on the data: of these nothing is known.

The sum of the bars of several aggregates holds in 95 of 100 cases, if each does: see `error_bars`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlanon.errors import SqlanonError
from sqlanon.gateway.bind.aggregates import Answered
from sqlanon.gateway.bind.scalars import Scope, bind
from sqlanon.gateway.bind.values import NO_NOISE, NUMBERS, Spread

MOST_ALTERNATIVES = 8  # sides of UNIONs that are looked at one by one
Spreads = tuple[Spread, ...]


def spreads_of(node: exp.Expr, scope: Scope, known: Mapping[int, Answered]) -> Spreads | None:
    """How far a column is moved, one for each side of a UNION below it; None where the data decide it.

    `known` are the aggregates of a core, by the identity of their nodes; other noise is in columns of noisy rows.
    """
    own = known.get(id(node))
    if own is not None:
        return (own.spread,) if own.spread is not None else None
    kind = type(node)
    if kind is exp.Column:
        return _of_column(node, scope)
    if kind in (exp.Paren, exp.Neg, exp.Abs, exp.Nullif):
        return spreads_of(node.this, scope, known)
    if kind in (exp.Add, exp.Sub):
        return _sum(spreads_of(node.this, scope, known), spreads_of(node.expression, scope, known))
    if kind in (exp.Mul, exp.Div):
        return _scaled(node, scope, known)
    if kind in (exp.Floor, exp.Ceil):
        return _rounded(spreads_of(node.this, scope, known), 1.0)
    if kind is exp.Round or isinstance(node, exp.Cast):
        return _rounded(spreads_of(node.this, scope, known), _half_unit(node, scope))
    if kind in (exp.Least, exp.Greatest, exp.Coalesce):
        found: Spreads | None = (NO_NOISE,)
        for each in (node.this, *node.expressions):
            found = _sum(found, spreads_of(each, scope, known))
        return found
    return (NO_NOISE,) if _is_literal(node, scope) else None


def _of_column(node: exp.Expr, scope: Scope) -> Spreads | None:
    try:
        value = bind(node, scope)
    except SqlanonError:  # inside of an aggregate of noisy rows, of which nothing is known
        return None
    return value.spreads if value.noisy else (NO_NOISE,)


def _is_literal(node: exp.Expr, scope: Scope) -> bool:
    return type(node) in (exp.Literal, exp.Placeholder) and bind(node, scope).kind in NUMBERS


def _sum(left: Spreads | None, right: Spreads | None) -> Spreads | None:
    if left is None or right is None or len(left) * len(right) > MOST_ALTERNATIVES:
        return None
    return tuple(one.plus(other) for one in left for other in right)


def _scaled(node: exp.Expr, scope: Scope, known: Mapping[int, Answered]) -> Spreads | None:
    """Times a number, or over one that is not zero. Whole numbers are cut off after division."""
    left, right = node.this.unnest(), node.expression.unnest()
    if type(node) is exp.Mul and _literal(left, scope) is not None:
        left, right = right, left
    factor = _literal(right, scope)
    found = spreads_of(left, scope, known)
    if found is None or factor is None or (type(node) is exp.Div and abs(factor) < 1e-9):
        return None
    if type(node) is exp.Mul:
        return tuple(each.times(factor) for each in found)
    whole = bool(node.args.get("typed")) and bind(node, scope).kind == "int"
    return _rounded(tuple(each.times(1 / factor) for each in found), 1.0 if whole else 0.0)


def _literal(node: exp.Expr, scope: Scope) -> float | None:
    if type(node) is exp.Neg:
        inner = _literal(node.this, scope)
        return None if inner is None else -inner
    if type(node) not in (exp.Literal, exp.Placeholder):
        return None
    value = bind(node, scope).literal
    return float(value) if isinstance(value, int | float) else None


def _rounded(found: Spreads | None, more: float) -> Spreads | None:
    return None if found is None else tuple(Spread(each.parts, each.more + more) for each in found)


def _half_unit(node: exp.Expr, scope: Scope) -> float:
    """Half of what is rounded to; of whole numbers that stay what they are, nothing."""
    inner = bind(node.this, scope).kind
    if isinstance(node, exp.Cast):
        sizes = [int(each.name) for each in node.args["to"].expressions if each.name.isdigit()]
        if bind(node, scope).kind != "int":
            return 0.5 * 10.0 ** -((*sizes, 0)[1]) if sizes else 0.0
        return 0.0 if inner == "int" else 0.5
    given = node.args.get("decimals")
    decimals = 0 if given is None else bind(given, scope).literal
    if not isinstance(decimals, int):
        return float("inf")
    return 0.0 if inner == "int" and decimals >= 0 else 0.5 * 10.0**-decimals
