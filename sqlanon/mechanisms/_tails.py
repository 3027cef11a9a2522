"""Exact tails of the noise, always on the safe side.

Decimals of many digits stand for real numbers here, and every probability is rounded up by more than they can err.
Python's operators on them round to the digits of whichever context is current, so only methods of our own context are
used; comparisons are exact.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from functools import lru_cache
from statistics import NormalDist

from sqlanon.mechanisms._checks import probability

DIGITS = 60
ROUNDED_UP = Decimal("1." + "0" * 39 + "1")
SUMMED_UP_TO = 64  # scales of discrete Gaussians whose tails are added up term by term


def context(digits: int = DIGITS) -> Context:
    """Arithmetic that does not care how small a number is: exp(-10**9) is not zero.

    >>> context().exp(Decimal(-(10**9))) > 0
    True
    """
    traps = [InvalidOperation, DivisionByZero, Overflow]
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)


def laplace_tail(scale: float, at: int) -> Decimal:
    """P[noise >= at] of discrete Laplace noise for at >= 0, rounded up: q**at / (1 + q) with q = exp(-1 / scale).

    >>> round(laplace_tail(1.0, at=2), 6)
    Decimal('0.098938')
    """
    exact = context()
    q = exact.exp(exact.divide(-1, Decimal(scale)))
    power = exact.exp(exact.divide(-at, Decimal(scale)))
    return exact.multiply(exact.divide(power, exact.add(1, q)), ROUNDED_UP)


def laplace_reach(scale: float, tail: Decimal) -> int:
    """The smallest at >= 0 with P[noise >= at] <= tail.

    >>> laplace_reach(1.0, Decimal("0.1")), laplace_reach(1.0, Decimal("0.098"))
    (2, 3)
    """
    exact = context()
    q = exact.exp(exact.divide(-1, Decimal(scale)))
    reach = exact.multiply(exact.ln(exact.multiply(tail, exact.add(1, q))), Decimal(scale))
    at = max(0, -int(reach.to_integral_value(rounding=ROUND_FLOOR)))
    while laplace_tail(scale, at) > tail:
        at += 1
    return at


@lru_cache(maxsize=1024)
def laplace_half_width(scale: float, coverage: float) -> int:
    """The smallest h with P[-h <= noise <= h] >= coverage.

    >>> laplace_half_width(1.0, coverage=0.95), laplace_half_width(0.01, coverage=0.95)
    (3, 0)
    """
    exact = context()
    outside = exact.subtract(1, Decimal(probability("coverage", coverage)))
    return max(0, laplace_reach(scale, exact.divide(outside, 2)) - 1)


@lru_cache(maxsize=1024)
def gaussian_half_width(scale: float, coverage: float) -> int:
    """An h with P[-h <= noise <= h] >= coverage: the smallest for small scales, at most one above it for large ones.

    The tail of the discrete Gaussian from h + 1 on lies below the tail of the continuous one from h on: each term of
    the sum lies below the integral over the unit to its left, and by Poisson summation the sum over all integers is at
    least the integral over all numbers (Canonne, Kamath and Steinke 2020, proposition 25).

    >>> gaussian_half_width(1.0, coverage=0.95), gaussian_half_width(1000.0, coverage=0.95)
    (2, 1960)
    """
    outside = 1 - probability("coverage", coverage)
    if scale > SUMMED_UP_TO:
        return math.ceil(-NormalDist().inv_cdf(outside / 2) * scale * (1 + 1e-9))
    weights = [math.exp(-((k / scale) ** 2) / 2) for k in range(math.ceil(40 * scale) + 2)]
    allowed = outside * (weights[0] + 2 * math.fsum(weights[1:])) * (1 - 1e-12)
    beyond = 0.0
    for h in range(len(weights) - 1, 0, -1):
        beyond += 2 * weights[h]
        if beyond > allowed:
            return h
    return 0
