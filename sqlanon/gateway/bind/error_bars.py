"""Error bars of arithmetic on aggregates: between which values it lies while each aggregate lies within its own bars.

Noise of several aggregates adds up to less than the sum of their bars in more than 95 of 100 cases too: if E and F are
exponential, P[s E + t F > (s + t) ln 20] is at most 1 / 20, whatever s and t are. Where m aggregates meet otherwise, as
in a quotient, the bars of each are widened so that all m hold at once in 95 of 100 cases (Bonferroni: from ln 20 to
ln 20m). Functions that keep the order take the ends with them. A quotient whose divisor may be zero is open: infinite.

A quantile has no bars: how far its value may be off depends on how close the values around it lie, which is not
known without more budget. Nor are there of columns of a subquery.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlanon.gateway.bind.aggregates import Answered
from sqlanon.gateway.bind.scalars import Scope, bind
from sqlanon.gateway.bind.values import NUMBERS, double, number

MOST_STEPS = 6  # of arithmetic; products and quotients repeat their parts four times
Tree = Callable[[], exp.Expr]


@dataclass(frozen=True)
class Ends:
    """The two ends of an interval, each built where it is needed."""

    low: Tree
    high: Tree


def bars_of(node: exp.Expr, scope: Scope, known: Mapping[int, Answered]) -> Ends | None:
    """The bars of an expression of aggregates and literals; None of any other, and of one that is too long."""
    if not holds_noise(node, known):
        return None  # what holds no aggregate is exact, and has no bars to show
    # What is inside an aggregate is no arithmetic on it.
    parts = node.walk(prune=lambda each: id(each) in known)
    steps = sum(2 if type(each) in REPEATING else 1 for each in parts if isinstance(each, STEPS))
    if id(node) not in known and steps > MOST_STEPS:
        return None
    return _ends(node, scope, _widened(node, known))


def _widened(node: exp.Expr, known: Mapping[int, Answered]) -> Mapping[int, Answered]:
    """Bars that hold for all aggregates of an expression at once, if it is more than a sum of them."""
    used = {id(each): each for each in node.walk() if id(each) in known}
    different = {each.sql() for each in used.values()}
    if len(different) < 2 or not any(_is_bent(each, known) for each in node.walk(prune=lambda each: id(each) in known)):
        return known
    factor = math.log(20 * len(different)) / math.log(20)
    return {place: _wider(known[place], factor) for place in used}


def _is_bent(node: exp.Expr, known: Mapping[int, Answered]) -> bool:
    """Whether several noisy parts meet here in another way than by addition."""
    if type(node) in (exp.Mul, exp.Div, exp.IntDiv):
        return holds_noise(node.this, known) and holds_noise(node.expression, known)
    return type(node) in (exp.Least, exp.Greatest, exp.Coalesce, exp.Case)


def _wider(own: Answered, factor: float) -> Answered:
    low, high = own.low, own.high
    if low is None or high is None:
        return own

    def end(side: Tree) -> exp.Expr:
        """value + factor * (side - value)"""
        value = own.value.tree
        off = exp.Paren(this=exp.Sub(this=double(side()), expression=double(value.copy())))
        return exp.Paren(
            this=exp.Add(this=double(value.copy()), expression=exp.Mul(this=number(factor), expression=off))
        )

    return replace(own, low=lambda: end(low), high=lambda: end(high))


def holds_noise(node: exp.Expr, known: Mapping[int, Answered]) -> bool:
    return any(id(each) in known for each in node.walk())


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
        turned = _ends(node.this, scope, known)
        return Ends(lambda: _negative(turned.high()), lambda: _negative(turned.low())) if turned else None
    if type(node) is exp.Round:
        return _rounded(node, scope, known)
    if type(node) in FUNCTIONS:
        inner = _ends(node.this, scope, known)
        return FUNCTIONS[type(node)](inner) if inner is not None else None
    if isinstance(node, exp.Cast):
        return _cast(node, scope, known)
    if type(node) is exp.Nullif:
        return _ends(node.this, scope, known)  # the value, or none
    if type(node) in (exp.Least, exp.Greatest, exp.Coalesce):
        return _picked(node, scope, known)
    if type(node) is exp.Case:
        return _case(node, scope, known)
    if type(node) not in (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv):
        return None
    whole = type(node) is exp.IntDiv or bool(node.args.get("typed"))
    whole = whole and all(bind(side, scope).kind == "int" for side in (node.this, node.expression))
    left, right = _ends(node.this, scope, known), _ends(node.expression, scope, known)
    if left is None or right is None:
        return None
    if not whole:
        return _together(type(node), left, right)
    cut = _together(exp.Div, left, right)  # what is behind the point is cut off, on either side of zero
    return Ends(lambda: exp.Floor(this=cut.low()), lambda: exp.Ceil(this=cut.high()))


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
        return exp.Case().when(away, tree, copy=False).else_(_open(pick is exp.Greatest), copy=False)

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


def _cast(node: exp.Cast, scope: Scope, known: Mapping[int, Answered]) -> Ends | None:
    """A number as another kind of number; one that becomes whole is rounded."""
    inner, kind = _ends(node.this, scope, known), bind(node, scope).kind
    if inner is None or kind not in NUMBERS:
        return None
    if kind != "int":
        return inner
    return Ends(lambda: exp.Floor(this=double(inner.low())), lambda: exp.Ceil(this=double(inner.high())))


def _picked(node: exp.Expr, scope: Scope, known: Mapping[int, Answered]) -> Ends | None:
    """LEAST, GREATEST and COALESCE keep the order, argument by argument."""
    ends = [_ends(each, scope, known) for each in (node.this, *node.expressions)]
    given = [each for each in ends if each is not None]
    if len(given) < len(ends):
        return None

    def end(trees: list[exp.Expr]) -> exp.Expr:
        first, *others = (double(tree) for tree in trees)
        if type(node) is exp.Coalesce:
            return exp.Coalesce(this=first, expressions=others)
        return type(node)(this=first, expressions=others, ignore_nulls=True)

    return Ends(lambda: end([each.low() for each in given]), lambda: end([each.high() for each in given]))


def _case(node: exp.Case, scope: Scope, known: Mapping[int, Answered]) -> Ends | None:
    """Without noise another branch may be taken: from the least of all branches to the greatest."""
    if node.args.get("default") is None:
        return None
    branches = [each.args["true"] for each in node.args["ifs"]] + [node.args["default"]]
    ends = [_ends(each, scope, known) for each in branches]
    given = [each for each in ends if each is not None]
    if len(given) < len(ends):
        return None

    def end(pick: type[exp.Least] | type[exp.Greatest], trees: list[exp.Expr]) -> exp.Expr:
        first, *others = (double(tree) for tree in trees)
        return pick(this=first, expressions=others, ignore_nulls=True)

    return Ends(
        lambda: end(exp.Least, [each.low() for each in given]),
        lambda: end(exp.Greatest, [each.high() for each in given]),
    )


def _growing(function: type[exp.Expr], least: float | None = None, most: float | None = None) -> Callable[[Ends], Ends]:
    """Bars of a function that keeps the order, for arguments that are moved to where it is computed."""

    def moved(tree: exp.Expr) -> exp.Expr:
        tree = double(tree)
        if least is not None:
            tree = exp.Greatest(this=tree, expressions=[number(least)], ignore_nulls=True)
        if most is not None:
            tree = exp.Least(this=tree, expressions=[number(most)], ignore_nulls=True)
        return function(this=tree)

    return lambda inner: Ends(lambda: moved(inner.low()), lambda: moved(inner.high()))


def _size(inner: Ends) -> Ends:
    """Of ABS: zero, if it lies between."""

    def greatest(*trees: exp.Expr) -> exp.Expr:
        first, *others = trees
        return exp.Greatest(this=double(first), expressions=[double(each) for each in others], ignore_nulls=True)

    return Ends(
        lambda: greatest(inner.low(), _negative(inner.high()), number(0)),
        lambda: greatest(_negative(inner.low()), inner.high()),
    )


def _logarithm(inner: Ends) -> Ends:
    """A number that may be zero has a logarithm that may be anything below."""

    def end(tree: Tree, above: bool) -> exp.Expr:
        positive = exp.GT(this=tree(), expression=number(0))
        return exp.Case().when(positive, exp.Ln(this=double(tree())), copy=False).else_(_open(above), copy=False)

    return Ends(lambda: end(inner.low, False), lambda: end(inner.high, True))


FUNCTIONS: dict[type[exp.Expr], Callable[[Ends], Ends]] = {
    exp.Floor: _growing(exp.Floor),
    exp.Ceil: _growing(exp.Ceil),
    exp.Sqrt: _growing(exp.Sqrt, least=0),
    exp.Exp: _growing(exp.Exp, least=-200, most=200),
    exp.Abs: _size,
    exp.Ln: _logarithm,
}
REPEATING = (exp.Mul, exp.Div, exp.IntDiv, exp.Abs, exp.Ln)
STEPS = (exp.Binary, exp.Neg, exp.Round, exp.Func)


def _open(above: bool) -> exp.Expr:
    """The end of an interval that has none."""
    return exp.cast(exp.Literal.string("infinity" if above else "-infinity"), exp.DataType.Type.DOUBLE)


def _of(operation: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=operation(this=double(left), expression=double(right)))


def _negative(tree: exp.Expr) -> exp.Expr:
    return exp.Neg(this=exp.Paren(this=double(tree)))
