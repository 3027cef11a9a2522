"""Arguments are checked at the door. The messages name parameters of a query or a policy, never data."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from sqlanon.errors import MechanismError

EPSILONS = (1e-12, 1e9)
LARGEST_SENSITIVITY = 2**62
LARGEST_SCALE = 2.0**60  # noise beyond this would often leave 64 bits
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def positive(name: str, value: float, low: float = EPSILONS[0], high: float = EPSILONS[1]) -> float:
    """A finite number of useful size.

    >>> positive("epsilon", 0)
    Traceback (most recent call last):
    sqlanon.errors.MechanismError: epsilon must be a number from 1e-12 to 1e+09, not 0
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise MechanismError(f"{name} must be a number from {low:g} to {high:g}, not {format_value(value)}")
    return float(value)


def probability(name: str, value: float) -> float:
    """Strictly between 0 and 1.

    >>> probability("delta", float("nan"))
    Traceback (most recent call last):
    sqlanon.errors.MechanismError: delta must lie strictly between 0 and 1, not nan
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise MechanismError(f"{name} must lie strictly between 0 and 1, not {format_value(value)}")
    return float(value)


def positive_integer(name: str, value: int) -> int:
    """A whole number, at least 1.

    >>> positive_integer("minimum", 0)
    Traceback (most recent call last):
    sqlanon.errors.MechanismError: minimum must be a whole number from 1 to 2**62, not 0
    """
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if not 1 <= number <= LARGEST_SENSITIVITY:
        raise MechanismError(f"{name} must be a whole number from 1 to 2**62, not {format_value(value)}")
    return number


def bounded_scale(scale: float) -> float:
    """Noise that fits into 64 bits with its values."""
    if not scale <= LARGEST_SCALE:
        raise MechanismError(
            f"noise of scale {scale:.3g} does not fit into 64-bit integers",
            hint="Ask for a larger epsilon, or for bounds or decimals that make the values smaller.",
        )
    return scale


def whole(values: Iterable[int]) -> list[int]:
    """Integers, clamped to 64 bits.

    >>> whole([3, 2**70])
    [3, 9223372036854775807]
    """
    try:
        return [min(max(operator.index(value), LOWEST), HIGHEST) for value in values]
    except TypeError:
        raise MechanismError("only whole numbers can be given to a mechanism") from None


def format_value(value: object) -> str:
    """A parameter as it was given, cut short; Python itself refuses to print the digits of 10**5000.

    >>> format_value(0.30000000000000004), format_value(10**5000), format_value("x" * 99)[-5:]
    ('0.3', 'a huge number', 'xx...')
    """
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a huge number"
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
