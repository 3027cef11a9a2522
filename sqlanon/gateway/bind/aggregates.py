"""Aggregates under differential privacy: which integers are read, and what is made of their noisy values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.calls import Call
from sqlanon.gateway.bind.conditions import condition
from sqlanon.gateway.bind.core import (
    CANDIDATES,
    WIDEST_BOUNDS,
    Atom,
    Core,
    bounded_double,
    fixed_point,
    quantum_for,
    reference,
    steps,
)
from sqlanon.gateway.bind.row_work import weigh_comparison
from sqlanon.gateway.bind.scalars import Scope, bind, refusal
from sqlanon.gateway.bind.values import (
    NUMBERS,
    TIMES,
    UNDECLARED,
    WIDEST,
    Interval,
    Kind,
    Spread,
    Value,
    clamp,
    double,
    in_days,
    number,
)
from sqlanon.policy.gateway import Gateway

# Share of an aggregate's epsilon for each integer that it is made from: the one that decides its error gets most.
AVG_WEIGHTS = (2 / 3, 1 / 3)
VARIANCE_WEIGHTS = (1 / 2, 1 / 4, 1 / 4)
ALL = exp.Boolean(this=True)


@dataclass(frozen=True)
class Answered:
    """An aggregate over the noisy table: its value, and between which values the true one lies."""

    value: Value
    low: Callable[[], exp.Expr] | None = None  # built where bars are asked for: those of a quotient are long
    high: Callable[[], exp.Expr] | None = None
    spread: Spread | None = None  # how far noise moves it, where that does not depend on the data


Aggregate = Callable[[Call, Core, Scope, Gateway], Answered]


def bind_aggregate(call: Call, core: Core, rows: Scope, policy: Gateway) -> Answered:
    """Bind an aggregate call: adds its atoms to the core, and gives what to compute from them."""
    allowed = policy.functions
    if allowed is None and call.name in ("min", "max"):
        share = "0.01" if call.name == "min" else "0.99"
        asked = f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY x)"  # which both dialects have
        raise refusal(
            call.node,
            f"{call.name.upper()}() is not answered: it would show one person's value",
            hint=f"ask for {asked}, or have the policy allow min and max as such quantiles",
        )
    if allowed is not None and call.name not in allowed:
        listed = ", ".join(allowed)
        raise refusal(call.node, f"the policy does not allow {call.name}", hint=f"it allows {listed}", sqlstate="42501")
    holds = condition(call.filter, rows).tree if call.filter is not None else None
    if call.argument is None:
        return _counted(core, None, holds)
    value = bind(call.argument, rows)
    if call.name == "count":
        return _counted(core, value, holds)
    if call.name == "count_distinct":
        return _distinct(core, value, holds, call)
    if value.kind in TIMES and call.alpha is not None and value.bounds is not None:
        return _as_date(_quantile(core, in_days(value), value.bounds, holds, call))
    if call.name in ("sum", "avg") and _without_bounds(value):
        return _ranged_sum(core, value, holds) if call.name == "sum" else _ranged_avg(core, value, holds)
    bounds = _bounds(call, value)
    if call.name == "sum":
        return _sum(core, value, bounds, holds)
    if call.name == "avg":
        return _avg(core, value, bounds, holds)
    if call.name in ("variance", "stddev"):
        return _variance(core, value, bounds, holds, call)
    return _quantile(core, value, bounds, holds, call)


def _bounds(call: Call, value: Value) -> Interval:
    if value.kind not in NUMBERS or value.bounds is None:
        raise refusal(call.node, f"{call.name.upper()}() needs numbers, not {value.kind}", sqlstate="42883")
    if value.bounds.size > WIDEST_BOUNDS:
        raise refusal(
            call.node,
            f"{call.name.upper()}() of an expression without bounds is not answered",
            hint="bound it: LEAST(GREATEST(x, 0), 100), or have low and high declared for its columns in the policy",
        )
    return value.bounds


def _without_bounds(value: Value) -> bool:
    """A number that no policy bounds, held to what doubles tell apart: its bounds are found, as part of the answer."""
    return value.kind in NUMBERS and value.bounds is not None and WIDEST_BOUNDS < value.bounds.size <= WIDEST


def _where(tree: exp.Expr, holds: exp.Expr | None) -> exp.Expr:
    """An integer a row: of rows that FILTER leaves out, and of NULL, it is 0."""
    inside = exp.Coalesce(this=tree, expressions=[number(0)])
    if holds is None:
        return inside
    return exp.Case().when(holds.copy(), inside, copy=False).else_(number(0), copy=False)


def _present(value: Value | None, holds: exp.Expr | None) -> exp.Expr:
    """1 in the rows that are counted."""
    tests = [] if holds is None else [holds.copy()]
    if value is not None and value.literal is None:
        tests.append(exp.Not(this=exp.Is(this=value.tree.copy(), expression=exp.Null())))
    if value is not None and value.kind == "null":
        tests.append(exp.Boolean(this=False))
    if not tests:
        return number(1)
    return exp.Case().when(exp.and_(*tests, copy=False), number(1), copy=False).else_(number(0), copy=False)


def _number(core: Core, atom: int) -> tuple[exp.Expr, exp.Expr]:
    return reference(core, f"a{atom}"), reference(core, f"h{atom}")


def _plus(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=a.copy(), expression=b.copy()))


def _minus(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Sub(this=a.copy(), expression=b.copy()))


def _times(a: exp.Expr, factor: float) -> exp.Expr:
    return a.copy() if factor == 1.0 else exp.Paren(this=exp.Mul(this=double(a), expression=double(number(factor))))


def _over(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Div(this=double(a), expression=double(b)))


def _at_least(tree: exp.Expr, low: float) -> exp.Expr:
    return _greatest(tree, [number(low)])


def _at_most(tree: exp.Expr, high: float) -> exp.Expr:
    return _least(tree, [number(high)])


def _greatest(first: exp.Expr, others: list[exp.Expr]) -> exp.Expr:
    # Nothing is NULL here. Without the flag each argument is written twice, to tell what NULL would give.
    return exp.Greatest(this=first, expressions=others, ignore_nulls=True)


def _least(first: exp.Expr, others: list[exp.Expr]) -> exp.Expr:
    return exp.Least(this=first, expressions=others, ignore_nulls=True)


def _held(tree: exp.Expr, low: float, high: float) -> exp.Expr:
    """Within bounds, of noisy numbers: these are never NULL, so that the tree need not be repeated as `clamp` does."""
    return _at_most(_at_least(tree, low), high)


def _result(tree: exp.Expr, kind: Kind) -> Value:
    return Value(tree, kind, UNDECLARED, clamped=False, public=True, computed=kind == "float")


def _counted(core: Core, value: Value | None, holds: exp.Expr | None) -> Answered:
    place = core.atom(count_atom(value, holds))
    noisy, width = _number(core, place)
    return Answered(
        _result(_at_least(noisy, 0), "int"),
        lambda: _at_least(_minus(noisy, width), 0),
        lambda: _at_least(_plus(noisy, width), 0),
        _moved(core, place),
    )


def _moved(core: Core, place: int) -> Spread:
    """What is moved as far as an integer of a core. Holding it within bounds moves it no further."""
    return Spread((((core.number, place), core.atoms[place].quantum),))


def count_atom(value: Value | None, holds: exp.Expr | None, weight: float = 1.0) -> Atom:
    return Atom("sum", _present(value, holds), 1, weight, label="rows")


def _distinct(core: Core, value: Value, holds: exp.Expr | None, call: Call) -> Answered:
    if value.unit:
        atom = Atom("persons", holds.copy() if holds is not None else ALL.copy(), label="persons")
    else:
        tree = value.tree.copy()
        if holds is not None:
            tree = exp.Case().when(holds.copy(), tree, copy=False).else_(exp.Null(), copy=False)
        tree = weigh_comparison(exp.Paren(this=tree), value.longest, bytewise=True)
        atom = Atom("distinct", tree, label="distinct values")
    place = core.atom(atom)
    noisy, width = _number(core, place)
    return Answered(
        _result(_at_least(noisy, 0), "int"),
        lambda: _at_least(_minus(noisy, width), 0),
        lambda: _at_least(_plus(noisy, width), 0),
        _moved(core, place),
    )


def _sum(core: Core, value: Value, bounds: Interval, holds: exp.Expr | None) -> Answered:
    quantum = quantum_for(bounds.size, value.kind == "int")
    tree = _where(fixed_point(value, bounds, quantum, 0.0), holds)
    place = core.atom(Atom("sum", tree, steps(bounds.size, quantum), quantum=quantum, label="sum"))
    noisy, width = _number(core, place)
    kind: Kind = "int" if quantum == 1.0 else "float"

    def shown(tree: exp.Expr) -> exp.Expr:
        scaled = _times(tree, quantum)
        if bounds.low >= 0:
            return _at_least(scaled, 0)
        return _at_most(scaled, 0) if bounds.high <= 0 else scaled

    return Answered(
        _result(shown(noisy), kind), lambda: shown(_minus(noisy, width)), lambda: shown(_plus(noisy, width)),
        _moved(core, place),
    )  # fmt: skip


@dataclass(frozen=True)
class Centred:
    """Sums of values less the middle of their bounds, which halves what one person can move."""

    middle: float
    quantum: float
    total: int
    rows: int


def _centred(core: Core, value: Value, bounds: Interval, holds: Any, weights: tuple[float, float]) -> Centred:
    middle = (bounds.low + bounds.high) / 2
    if value.kind == "int":
        middle = float(int(middle))
    reach = max(bounds.high - middle, middle - bounds.low)
    quantum = quantum_for(reach, value.kind == "int")
    tree = _where(fixed_point(value, bounds, quantum, middle), holds)
    total = core.atom(Atom("sum", tree, steps(reach, quantum), weights[0], quantum, label="centred sum"))
    return Centred(middle, quantum, total, core.atom(count_atom(value, holds, weights[1])))


def _avg(core: Core, value: Value, bounds: Interval, holds: exp.Expr | None) -> Answered:
    parts = _centred(core, value, bounds, holds, AVG_WEIGHTS)
    total, total_width = _number(core, parts.total)
    rows, rows_width = _number(core, parts.rows)

    def mean(above: exp.Expr, below: exp.Expr) -> exp.Expr:
        offset = _over(_times(above, parts.quantum), _at_least(below, 1))
        return _held(_plus(number(parts.middle), offset), bounds.low, bounds.high)

    def ends() -> tuple[exp.Expr, list[exp.Expr]]:
        """Of a quotient, over a box that holds both: its corners."""
        counts = _at_least(_minus(rows, rows_width), 1), _plus(rows, rows_width)
        first, *others = [mean(sign(total, total_width), count) for sign in (_minus, _plus) for count in counts]
        return first, others

    return Answered(_result(mean(total, rows), "float"), lambda: _least(*ends()), lambda: _greatest(*ends()))


def _ranged(core: Core, value: Value, holds: exp.Expr | None, *, centred: bool) -> int:
    tree = bounded_double(value, UNDECLARED)
    if holds is not None:
        tree = exp.Case().when(holds.copy(), tree, copy=False).else_(exp.Null(), copy=False)
    weight, label = (AVG_WEIGHTS[0], "centred sum without bounds") if centred else (1.0, "sum without bounds")
    return core.atom(Atom("ranged", tree, weight=weight, label=label, centred=centred))


def _unit(core: Core, place: int, tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Mul(this=double(tree), expression=reference(core, f"u{place}")))


def _ranged_sum(core: Core, value: Value, holds: exp.Expr | None) -> Answered:
    place = _ranged(core, value, holds, centred=False)
    noisy, width = _number(core, place)
    return Answered(
        _result(_unit(core, place, noisy), "float"),
        lambda: _unit(core, place, _minus(noisy, width)),
        lambda: _unit(core, place, _plus(noisy, width)),
    )


def _ranged_avg(core: Core, value: Value, holds: exp.Expr | None) -> Answered:
    place, counted = _ranged(core, value, holds, centred=True), core.atom(count_atom(value, holds, AVG_WEIGHTS[1]))
    (total, total_width), (rows, rows_width) = _number(core, place), _number(core, counted)
    low, high = reference(core, f"low{place}"), reference(core, f"high{place}")
    middle = _over(_plus(low, high), number(2))

    def mean(above: exp.Expr, below: exp.Expr) -> exp.Expr:
        made = _plus(middle, _over(_unit(core, place, above), _at_least(below.copy(), 1)))
        return _least(_greatest(made, [low.copy()]), [high.copy()])

    def ends() -> tuple[exp.Expr, list[exp.Expr]]:
        counts = _at_least(_minus(rows, rows_width), 1), _plus(rows, rows_width)
        first, *others = [mean(sign(total, total_width), count) for sign in (_minus, _plus) for count in counts]
        return first, others

    return Answered(_result(mean(total, rows), "float"), lambda: _least(*ends()), lambda: _greatest(*ends()))


def _variance(core: Core, value: Value, bounds: Interval, holds: exp.Expr | None, call: Call) -> Answered:
    first, second, third = VARIANCE_WEIGHTS
    parts = _centred(core, value, bounds, holds, (second, third))
    reach = max(bounds.high - parts.middle, parts.middle - bounds.low)
    # Squares lie in [0, reach²]: counted from the middle of that, a person moves them half as far.
    half = float(int(reach * reach / 2)) if value.kind == "int" else reach * reach / 2
    quantum = quantum_for(max(half, reach * reach - half), value.kind == "int")
    centred = fixed_point(value, bounds, 1.0 if parts.quantum == 1.0 else parts.quantum, parts.middle)
    offset = _times(centred, parts.quantum)
    square = exp.Sub(this=exp.Paren(this=exp.Mul(this=offset, expression=offset.copy())), expression=number(half))
    if quantum == 1.0 and parts.quantum == 1.0:
        tree: exp.Expr = exp.Paren(this=square)
    else:
        scaled = exp.Div(this=exp.Paren(this=square), expression=double(number(quantum)))
        tree = exp.cast(exp.Anonymous(this="ROUND", expressions=[scaled]), exp.DataType.Type.BIGINT, copy=False)
    # What is squared was rounded to whole quanta, which may lie a little outside of the bounds.
    rounded = steps(reach, parts.quantum) * parts.quantum
    size = steps(max(half, rounded * rounded - half), quantum)
    squares = core.atom(Atom("sum", _where(tree, holds), size, first, quantum, label="centred sum of squares"))
    total, total_width = _number(core, parts.total)
    rows, rows_width = _number(core, parts.rows)
    squared, squared_width = _number(core, squares)
    most = reach * reach * (1.0 if call.population else 2.0)

    def shown(
        mean_square: exp.Expr, mean_squared: exp.Expr, count: exp.Expr, least: exp.Expr | None = None
    ) -> exp.Expr:
        spread: exp.Expr = _minus(mean_square, mean_squared)
        if least is not None:
            spread = _greatest(spread, [least])
        if not call.population:
            correction = _over(count.copy(), _at_least(_minus(count, number(1)), 1))
            spread = exp.Paren(this=exp.Mul(this=spread, expression=correction))
        held = _held(spread, 0.0, most)
        return exp.Sqrt(this=held) if call.name == "stddev" else held

    def mean_square(above: exp.Expr, count: exp.Expr) -> exp.Expr:
        return _plus(number(half), _over(_times(above, quantum), count))

    def mean_squared(above: exp.Expr, count: exp.Expr) -> exp.Expr:
        mean = _over(_times(above, parts.quantum), count)
        return exp.Paren(this=exp.Mul(this=mean, expression=mean.copy()))

    def counts() -> tuple[exp.Expr, exp.Expr]:
        return _at_least(_minus(rows, rows_width), 1), _at_least(_plus(rows, rows_width), 1)

    def low() -> exp.Expr:
        """The mean of squares at its least, less the mean at its furthest from zero."""
        fewest, most_rows = counts()
        below = _minus(squared, squared_width)
        squares_end = _least(mean_square(below, fewest), [mean_square(below, most_rows)])
        furthest = _plus(exp.Abs(this=total.copy()), total_width)
        return shown(squares_end, mean_squared(furthest, fewest), most_rows)

    def high() -> exp.Expr:
        fewest, most_rows = counts()
        above = _plus(squared, squared_width)
        squares_end = _greatest(mean_square(above, fewest), [mean_square(above, most_rows)])
        nearest = _at_least(_minus(exp.Abs(this=total.copy()), total_width), 0)
        # Noise may push all of it below zero; a bar that ended there would look exact.
        width = _over(_times(squared_width.copy(), quantum), fewest.copy())
        return shown(squares_end, mean_squared(nearest, most_rows), fewest, width)

    count = _at_least(rows, 1)
    spread = shown(mean_square(squared, count), mean_squared(total, count), count)
    return Answered(_result(spread, "float"), low, high)


def _as_date(days: Answered) -> Answered:
    start = exp.cast(exp.Literal.string("1970-01-01"), exp.DataType.Type.DATE)
    shift = exp.cast(days.value.tree, exp.DataType.Type.INT, copy=False)
    return Answered(Value(exp.Paren(this=exp.Add(this=start, expression=shift)), "date", clamped=False, public=True))


def _quantile(core: Core, value: Value, bounds: Interval, holds: exp.Expr | None, call: Call) -> Answered:
    """The bin of a value among equally wide bins; the mechanism picks one, and its middle is the answer."""
    if value.kind == "int":
        bounds = Interval(math.floor(bounds.low), math.ceil(bounds.high))
    width = bounds.high - bounds.low
    whole = value.kind == "int" and width < CANDIDATES
    bins = max(1, int(width) + 1 if whole else CANDIDATES)
    if whole:
        held = fixed_point(value, bounds, 1.0, 0.0)
        tree: exp.Expr = exp.Paren(this=exp.Sub(this=held, expression=number(int(bounds.low))))
    else:
        above = exp.Sub(this=bounded_double(value, bounds), expression=number(bounds.low))
        share = exp.Div(this=exp.Paren(this=above), expression=double(number(width / bins if width else 1.0)))
        tree = exp.cast(clamp(exp.Floor(this=share), 0, bins - 1), exp.DataType.Type.BIGINT, copy=False)
    if holds is not None:
        tree = exp.Case().when(holds.copy(), tree, copy=False).else_(exp.Null(), copy=False)
    step = 1.0 if whole else width / bins
    atom = Atom(
        "quantile", tree, 1, 1.0, step, f"quantile {call.alpha:g}", alpha=call.alpha or 0.0,
        low=bounds.low if whole else bounds.low + step / 2, high=bounds.high, bins=bins,
    )  # fmt: skip
    noisy, _ = _number(core, core.atom(atom))
    tree = _plus(number(atom.low), _times(noisy, step))
    return Answered(_result(exp.cast(tree, exp.DataType.Type.BIGINT) if whole else tree, "int" if whole else "float"))
