"""Error bars of arithmetic on aggregates: between which values it lies while each aggregate lies within its own bars.

Noise of several aggregates adds up to less than the sum of their bars in more than 95 of 100 cases too: if E and F are
exponential, P[s E + t F > (s + t) ln 20] is at most 1 / 20, whatever s and t are. Of a quantile there are no bars: how
far its value may be off hangs on how close the values around it lie, which is not known without more budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.gateway.aggregates import Answered
from sqlanon.gateway.scalars import Scope, bind
from sqlanon.gateway.values import NUMBERS, double, number

MOST_STEPS = 6  # of arithmetic; products and quotients repeat their parts four times
Tree = Callable[[], exp.Expr]


@dataclass(frozen=True)
class Ends:
    """The two ends of an interval, each built where it is needed."""

    low: Tree
    high: Tree


def bars_of(node: exp.Expr, scope: Scope, known: Mapping[int, Answered]) -> Ends | None:
    """The bars of an expression of aggregates and literals; None of any other, and of one that is too long."""
    steps = sum(2 if type(each) in (exp.Mul, exp.Div) else 1 for each in node.find_all(exp.Binary, exp.Neg, exp.Round))
    # What is inside an aggregate is no arithmetic on it. What holds none is exact, and has no bars to show.
    noisy = any(id(each) in known for each in node.walk())
    return _ends(node, scope, known) if id(node) in known or (noisy and steps <= MOST_STEPS) else None


def _ends(node: exp.Expr, scope: Scope, known: Mapping[int, Answered]) -> Ends | None:
    own = known.get(id(node))
    if own is not None:
        numeric = own.value.kind in NUMBERS
        return Ends(own.low, own.high) if own.low is not None and own.high is not None and numeric else None
    if type(node) is exp.Paren:
        return _ends(node.this, scope, known)
    if type(node) is exp.Literal and not node.is_string:
        literal = bind(node, scope).literal
        return Ends(lambda: number(literal), lambda: number(literal))
    if type(node) is exp.Neg:
        inner = _ends(node.this, scope, known)
        return Ends(lambda: _negative(inner.high()), lambda: _negative(inner.low())) if inner else None
    if type(node) is exp.Round:
        return _rounded(node, scope, known)
    if type(node) not in (exp.Add, exp.Sub, exp.Mul, exp.Div):
        return None
    if node.args.get("typed") and all(bind(side, scope).kind == "int" for side in (node.this, node.expression)):
        return None  # PostgreSQL's division of whole numbers, which cuts off
    left, right = _ends(node.this, scope, known), _ends(node.expression, scope, known)
    return _together(type(node), left, right) if left is not None and right is not None else None


def _together(operation: type[exp.Expr], a: Ends, b: Ends) -> Ends:
    if operation is exp.Add:
        return Ends(lambda: _of(exp.Add, a.low(), b.low()), lambda: _of(exp.Add, a.high(), b.high()))
    if operation is exp.Sub:
        return Ends(lambda: _of(exp.Sub, a.low(), b.high()), lambda: _of(exp.Sub, a.high(), b.low()))

    def corners() -> list[exp.Expr]:
        return [_of(operation, x(), y()) for x in (a.low, a.high) for y in (b.low, b.high)]

    def end(pick: type[exp.Least] | type[exp.Greatest]) -> exp.Expr:
        first, *others = corners()
        tree = pick(this=first, expressions=others, ignore_nulls=True)
        if operation is exp.Mul:
            return tree
        # A divisor that may be zero leaves everything open.
        away = exp.Or(
            this=exp.GT(this=b.low(), expression=number(0)), expression=exp.LT(this=b.high(), expression=number(0))
        )
        return exp.Case().when(away, tree, copy=False)

    return Ends(lambda: end(exp.Least), lambda: end(exp.Greatest))


def _rounded(node: exp.Round, scope: Scope, known: Mapping[int, Answered]) -> Ends | None:
    """Rounding keeps the order: the ends of what is rounded, rounded."""
    inner, given = _ends(node.this, scope, known), node.args.get("decimals")
    decimals = 0 if given is None else bind(given, scope).literal
    if inner is None or type(decimals) is not int or not -9 <= decimals <= 9:
        return None
    power = 10.0**decimals

    def whole(tree: exp.Expr) -> exp.Expr:
        scaled = exp.Add(this=_of(exp.Mul, tree, number(power)), expression=number(0.5))
        return _of(exp.Div, exp.Floor(this=scaled), number(power))

    return Ends(lambda: whole(inner.low()), lambda: whole(inner.high()))


def _of(operation: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=operation(this=double(left), expression=double(right)))


def _negative(tree: exp.Expr) -> exp.Expr:
    return exp.Neg(this=exp.Paren(this=double(tree)))
