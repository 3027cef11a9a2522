"""Error in, epsilon out: the least epsilon for which a statement is expected to be as accurate as asked.

The error is half of the 95 % interval, of every aggregate of the statement and of every number of its answer. It is
a function of the statement and the policy alone: so is the epsilon, and the same question finds its answer again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.errors import Refused, number
from sqlanon.gateway.bind.aggregates import Answered
from sqlanon.gateway.bind.core import Core
from sqlanon.gateway.bind.scalars import refusal, spelling
from sqlanon.gateway.bind.values import NUMBERS, Relation, Spread
from sqlanon.gateway.price.noise import Noise, atom_width
from sqlanon.gateway.price.prepared_statement import PricedCore

DIGITS = 3  # of the epsilons that are tried: errors that are nearly the same cost the same, and share their answers
HINT = "ask for sums and counts, whose error does not depend on the data, and divide these yourself"


@dataclass(frozen=True)
class ExpectedError:
    """What is to be within the error: a column or an aggregate, and how far noise moves it."""

    name: str
    spread: Spread


def expected_errors(answered: Sequence[tuple[exp.Expr, Answered]], relation: Relation) -> list[ExpectedError]:
    """All aggregates and numbers of a statement, or a refusal of one whose error depends on the data."""
    found = []
    for node, each in answered:
        if each.spread is None:
            raise refusal(node, f"how far {_called(node)} is off depends on the data", hint=HINT)
        found.append(ExpectedError(_called(node), each.spread))
    for (name, value), label in zip(relation.columns.items(), relation.shown_names, strict=True):
        if not value.noisy or value.kind not in NUMBERS:
            continue
        if value.spreads is None:
            raise Refused(f"how far the column '{(label or name)[:60]}' is off depends on the data", hint=HINT)
        found += [ExpectedError(f"the column '{(label or name)[:60]}'", spread) for spread in value.spreads]
    return found


def _called(node: exp.Expr) -> str:
    return f"{spelling(node.this if isinstance(node, exp.Filter) else node)}".removeprefix("the function ").upper()


def width_of(spread: Spread, cores: Sequence[Core], noises: Sequence[Noise]) -> float:
    """Half of the 95 % interval."""
    place = {core.number: at for at, core in enumerate(cores)}
    parts = ((noises[place[core]], atom, factor) for (core, atom), factor in spread.parts)
    return sum(factor * atom_width(noise, atom) for noise, atom, factor in parts) + spread.more


def column_errors(relation: Relation, parts: Sequence[PricedCore]) -> list[tuple[str, float | None]]:
    """Half of the 95 % interval of each number with noise; None where it depends on the data."""
    cores, noises = [part.core for part in parts], [part.noise for part in parts]
    found: list[tuple[str, float | None]] = []
    for label, value in zip(relation.shown_names, relation.columns.values(), strict=True):
        if value.noisy and value.kind in NUMBERS and parts:
            widths = [width_of(each, cores, noises) for each in value.spreads or ()]
            found.append((label, max(widths) if widths else None))
    return found


def least_epsilon(
    error: float,
    wanted: Sequence[ExpectedError],
    cores: Sequence[Core],
    noises_at: Callable[[float], Sequence[Noise]],
    least: float,
    most: float,
) -> float:
    """The least epsilon, of three digits, from `least` to `most`, for which all that is wanted is within the error."""

    def largest(epsilon: float) -> float:
        noises = noises_at(epsilon)
        return max((width_of(each.spread, cores, noises) for each in wanted), default=0.0)

    steps = epsilons(least, most)
    reached = largest(steps[-1])
    if reached > error:
        raise Refused(
            f"an error of {number(error)} is not reached with epsilon {number(most)}, the most that a statement may "
            "spend",
            hint=f"the smallest error that can be asked for is {number(_above(reached))}; fewer columns, or fewer "
            "groups or rows of one person (max_groups_contributed, max_rows_contributed), make it smaller",
            sqlstate="22023",
        )
    low, high = 0, len(steps) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if largest(steps[middle]) <= error else (middle + 1, high)
    return steps[high]


def epsilons(least: float, most: float) -> list[float]:
    """The epsilons that are tried: numbers of three digits, and both ends.

    >>> epsilons(0.998, 1.02)
    [0.998, 0.999, 1.0, 1.01, 1.02]
    """
    exponent = math.floor(math.log10(least))
    found = [least]
    while 10.0**exponent <= most:
        tens = (float(f"{digits}e{exponent - DIGITS + 1}") for digits in range(10 ** (DIGITS - 1), 10**DIGITS))
        found += [each for each in tens if least < each < most]
        exponent += 1
    return [*found, most] if most > least else found


def _above(width: float) -> float:
    """A number of three digits that is not below.

    >>> _above(1234.5), _above(0.5), _above(28)
    (1240.0, 0.5, 28.0)
    """
    unit = 10.0 ** (math.floor(math.log10(width)) - DIGITS + 1) if width > 0 else 1.0
    whole = math.ceil(width / unit - 1e-9)
    made = float(f"{whole * unit:.{DIGITS + 1}g}")
    return made if made >= width else made + unit
