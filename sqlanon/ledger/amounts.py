"""Amounts of privacy, exact: a sum of a thousand charges is not off by a billionth.

A float stands for the shortest decimal that names it (0.1 is 0.1). A charge is rounded up, at the 12th digit of
epsilon, the 24th of delta and the 18th of rho; sums are exact; and only at the end is a sum compared with its limit,
with a tolerance of a billionth of the limit, which does not grow with the number of charges.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import NamedTuple

from sqlanon.errors import PolicyError
from sqlanon.mechanisms import Cost

EXACT = Context(prec=100)
ZERO = Decimal(0)
LARGEST = Decimal(10) ** 18
TOLERANCE = 1 + Decimal("1e-9")
UNITS = {"epsilon": Decimal("1e-12"), "delta": Decimal("1e-24"), "rho": Decimal("1e-18")}


class Sums(NamedTuple):
    """The charges of a time, added; `in_rho` counts those that state a rho and no epsilon."""

    epsilon: Decimal = ZERO
    delta: Decimal = ZERO
    rho: Decimal = ZERO
    in_rho: int = 0

    def plus(self, other: Sums) -> Sums:
        add = EXACT.add
        return Sums(
            add(self.epsilon, other.epsilon),
            add(self.delta, other.delta),
            add(self.rho, other.rho),
            self.in_rho + other.in_rho,
        )


def amount(value: float, what: str, *, most: Decimal = LARGEST) -> Decimal:
    """The exact number that is meant; refuses what is no amount.

    >>> amount(0.1, "epsilon")
    Decimal('0.1')
    """
    # True is no epsilon of 1.
    if isinstance(value, bool) or not math.isfinite(float(value)) or value < 0:
        raise PolicyError(f"{what} must be a finite number that is not negative, not {value}")
    exact = Decimal(repr(float(value)))
    if exact > most:
        raise PolicyError(f"{what} must be at most {most:g}, not {value}")
    return exact


def charge(cost: Cost) -> Sums:
    """What the ledger writes down for a cost, rounded up.

    A cost that states no rho has that of its epsilon: what is (epsilon, delta)-private is, but for the same delta,
    epsilon^2 / 2 zero-concentrated (Bun and Steinke 2016; for delta > 0 by Kairouz, Oh and Viswanath 2015).

    >>> charge(Cost(epsilon=1 / 3)).epsilon, charge(Cost(epsilon=0.5)).rho
    (Decimal('0.333333333334'), Decimal('0.125000000000000000'))
    """
    epsilon = _up(amount(cost.epsilon, "epsilon"), "epsilon")
    delta = _up(amount(cost.delta, "delta", most=Decimal(1)), "delta")
    rho = amount(cost.rho, "rho", most=LARGEST * LARGEST)
    rho = _up(rho if rho else EXACT.multiply(EXACT.multiply(epsilon, epsilon), Decimal("0.5")), "rho")
    return Sums(epsilon, delta, rho, int(not epsilon and bool(rho)))


def _up(value: Decimal, what: str) -> Decimal:
    return value.quantize(UNITS[what], rounding=ROUND_CEILING, context=EXACT)


def fits(spent: Decimal, limit: Decimal) -> bool:
    """Whether a sum is within its limit.

    >>> fits(Decimal("1.0"), Decimal(1)), fits(Decimal("1.00001"), Decimal(1))
    (True, False)
    """
    return spent <= EXACT.multiply(limit, TOLERANCE)


def format_amounts(left: Decimal, needed: Decimal) -> tuple[str, str]:
    """Two amounts, with as many digits as it takes to see that the one is less.

    >>> format_amounts(Decimal("0.2"), Decimal("0.5")), format_amounts(Decimal("0.1"), Decimal("0.1001"))
    (('0.20', '0.50'), ('0.1000', '0.1001'))
    >>> format_amounts(Decimal(0), Decimal("1e-6"))
    ('0', '0.000001')
    >>> format_amounts(Decimal(0), Decimal("0.500000000001"))  # parts of a half that were rounded up
    ('0', '0.50')
    """
    for digits in (2, 4, 6, 9, 12, 18, 24):
        unit = Decimal(1).scaleb(-digits)
        low = left.quantize(unit, rounding=ROUND_FLOOR, context=EXACT)
        high = (needed / TOLERANCE).quantize(unit, rounding=ROUND_CEILING, context=EXACT)
        if low < high and high - low < 2 * (needed - left):
            return f"{low:f}" if low else "0", f"{high:f}"
    return f"{left:f}", f"{needed:f}"
