"""The shortest text of a float that reads back as itself, digit for digit as PostgreSQL writes it.

PostgreSQL uses Ryū with open intervals: a decimal exactly halfway between two floats is never used, although it would
read back right (1e23 is written 9.999999999999999e+22). Python's repr and Arrow's cast do use it.
cite: Adams 2018, "Ryū: fast float-to-string conversion"
"""

from __future__ import annotations

import math
import struct


def _digits(mantissa: int, exponent: int, boundary: bool) -> tuple[int, int]:
    """Digits d and exponent e such that d * 10**e is the shortest decimal inside the open interval of the float
    mantissa * 2**exponent; at a `boundary` (a power of two) the next lower float is only half as far away."""
    # In quarters of the last place: the float, and half the way to its neighbours.
    exact, above, below = 4 * mantissa, 4 * mantissa + 2, 4 * mantissa - (1 if boundary else 2)
    exponent -= 2
    # Ryū's choice of the power of ten: fine enough, and it decides which digits are seen by the rounding below.
    if exponent >= 0:
        power = max(0, exponent * 78913 // 2**18 - (exponent > 3))
        scale, divisor = 2**exponent, 10**power
    else:
        power = max(0, -exponent * 732923 // 2**20 - (-exponent > 1)) + exponent
        scale, divisor = (10**-power, 2**-exponent) if power < 0 else (1, 10**power * 2**-exponent)
    value, rest = divmod(exact * scale, divisor)
    high = -(-above * scale // divisor) - 1
    low = below * scale // divisor
    exactly, last = rest == 0, 0
    while high // 10 > low // 10:
        exactly = exactly and last == 0
        value, last = divmod(value, 10)
        high //= 10
        low //= 10
        power += 1
    if exactly and last == 5 and value % 2 == 0:
        last = 4
    return value + (value == low or last >= 5), power


def _spelled(sign: str, digits: int, exponent: int, fixed: int) -> str:
    """Plain from 0.0001 up to `fixed` places before the point, else with an exponent of at least two digits."""
    text = str(digits).rstrip("0") or "0"
    exponent += len(str(digits)) - len(text)
    places = len(text) + exponent
    if not -4 < places <= fixed:
        point = "." if len(text) > 1 else ""
        return f"{sign}{text[0]}{point}{text[1:]}e{places - 1:+03d}"
    if places <= 0:
        return f"{sign}0.{'0' * -places}{text}"
    if exponent >= 0:
        return sign + text + "0" * exponent
    return f"{sign}{text[:places]}.{text[places:]}"


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return sign + "Infinity"
    return sign + "0" if value == 0 else None


def float8(value: float) -> str:
    """
    >>> [float8(each) for each in (1.0, -0.0, 1e15, 123456789012345.0, 1e23, 1e-5)]
    ['1', '-0', '1e+15', '123456789012345', '9.999999999999999e+22', '1e-05']
    """
    special = _special(value)
    if special is not None:
        return special
    size = abs(value)
    # No decimal of 17 digits is halfway between two floats out here, and only powers of two have uneven neighbours.
    if not 1e15 <= size < 1e41 and size > 1e-300 and math.frexp(size)[0] != 0.5:
        return repr(value).removesuffix(".0")
    (bits,) = struct.unpack(">Q", struct.pack(">d", size))
    fraction, biased = bits & (2**52 - 1), bits >> 52
    sign = "-" if value < 0 else ""
    if size < 2**53 and size == int(size):
        return _spelled(sign, int(size), 0, 15)
    mantissa = fraction | 2**52 if biased else fraction
    boundary = fraction == 0 and biased > 1
    return _spelled(sign, *_digits(mantissa, max(biased, 1) - 1075, boundary), 15)


def float4(value: float) -> str:
    """The text of the nearest float of 32 bits.

    >>> [float4(each) for each in (0.1, 1e6, 123456.0, 16777216.0)]
    ['0.1', '1e+06', '123456', '1.6777216e+07']
    """
    special = _special(value)
    if special is not None:
        return special
    (bits,) = struct.unpack(">I", struct.pack(">f", abs(value)))
    sign = "-" if value < 0 else ""
    if bits == 0:
        return sign + "0"
    fraction, biased = bits & (2**23 - 1), bits >> 23
    whole = struct.unpack(">f", struct.pack(">I", bits))[0]
    if whole < 2**24 and whole == int(whole):
        return _spelled(sign, int(whole), 0, 6)
    mantissa = fraction | 2**23 if biased else fraction
    boundary = fraction == 0 and biased > 1
    return _spelled(sign, *_digits(mantissa, max(biased, 1) - 150, boundary), 6)
