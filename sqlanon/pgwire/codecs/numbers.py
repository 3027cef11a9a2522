"""Whole numbers, numeric, floats and booleans."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Any

from sqlanon.pgwire.codecs import Codec
from sqlanon.pgwire.codecs.floats import float4, float8

SPACE = " \t\n\r\v\f"
INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
NAMED = re.compile(r"([+-]?)(?:inf|infinity)|nan", re.IGNORECASE)
# PostgreSQL's numeric: digits before the point, after it, and in what follows the letter e.
MOST_BEFORE, MOST_AFTER, MOST_EXPONENT = 131072, 16383, 7
POSITIVE, NEGATIVE, NOT_A_NUMBER, INFINITE, MINUS_INFINITE = 0x0000, 0x4000, 0xC000, 0xD000, 0xF000


def exactly(data: bytes, form: str) -> tuple[Any, ...]:
    """Unpack bytes that must have just the right length."""
    if len(data) != struct.calcsize(form):
        raise ValueError
    return struct.unpack(form, data)


def whole(text: str) -> int:
    stripped = text.strip(SPACE)
    if not INTEGER.fullmatch(stripped):
        raise ValueError
    if len(stripped) > 4000:  # Python reads no more than 4,300 digits
        raise OverflowError
    return int(stripped)


def integer(form: str) -> Codec:
    """A whole number of a fixed width; `form` as in the module struct."""
    bits = 8 * struct.calcsize(form)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if form[-1].islower() else (0, 2**bits - 1)

    def checked(value: Any) -> int:
        if not isinstance(value, int):
            raise TypeError
        if not low <= value <= high:
            raise OverflowError
        return int(value)

    return Codec(
        lambda text: checked(whole(text)),
        lambda value: str(checked(value)),
        lambda data: int(exactly(data, form)[0]),
        lambda value: struct.pack(form, checked(value)),
    )


def _read_numeric(text: str) -> Decimal:
    stripped = text.strip(SPACE)
    if named := NAMED.fullmatch(stripped):
        return Decimal("NaN" if named[1] is None else named[1] + "Infinity")
    found = NUMBER.fullmatch(stripped)
    if not found:
        raise ValueError
    if found[1] and len(found[1].lstrip("+-0")) > MOST_EXPONENT:
        raise OverflowError
    return _decimal(Decimal(stripped))


def _decimal(value: Any) -> Decimal:
    """A number as Decimal, without an exponent above zero and without a negative zero."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError
    number = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        return number
    if number.adjusted() >= MOST_BEFORE or int(number.as_tuple().exponent) < -MOST_AFTER:
        raise OverflowError
    if int(number.as_tuple().exponent) > 0:
        number = Decimal(format(number, "f")) if number else Decimal(0)
    return number if number else number.copy_abs()


def _write_numeric(value: Any) -> str:
    number = _decimal(value)
    if number.is_nan():
        return "NaN"
    return format(number, "f") if number.is_finite() else ("-Infinity" if number < 0 else "Infinity")


def _numeric_from_binary(data: bytes) -> Decimal:
    count, weight, sign, scale = exactly(data[:8], ">HhHH")
    digits = exactly(data[8:], f">{count}H")
    if sign in (NOT_A_NUMBER, INFINITE, MINUS_INFINITE):
        return Decimal({NOT_A_NUMBER: "NaN", INFINITE: "Infinity", MINUS_INFINITE: "-Infinity"}[sign])
    if sign not in (POSITIVE, NEGATIVE) or scale > MOST_AFTER or any(digit > 9999 for digit in digits):
        raise ValueError
    text = "".join(f"{digit:04d}" for digit in digits)
    before = 4 * (weight + 1)
    text = "0" * -before + text if before < 0 else text.ljust(before, "0")
    before = max(before, 0)
    after = text[before : before + scale].ljust(scale, "0")
    return _decimal(Decimal(f"{'-' if sign else ''}{text[:before] or '0'}.{after}"))


def _numeric_to_binary(value: Any) -> bytes:
    number = _decimal(value)
    if not number.is_finite():
        sign = NOT_A_NUMBER if number.is_nan() else MINUS_INFINITE if number < 0 else INFINITE
        # PostgreSQL tells of infinities that they have 32 places; nobody reads it, and it costs nothing to agree.
        return struct.pack(">HhHH", 0, 0, sign, 0 if number.is_nan() else 32)
    before, _, after = format(number.copy_abs(), "f").partition(".")
    groups_before = -(-len(before) // 4)
    text = before.zfill(4 * groups_before) + after.ljust(-(-len(after) // 4) * 4, "0")
    digits = [int(text[at : at + 4]) for at in range(0, len(text), 4)]
    weight = groups_before - 1
    first = next((at for at, digit in enumerate(digits) if digit), len(digits))
    digits, weight = digits[first:], weight - first
    while digits and digits[-1] == 0:
        digits.pop()
    sign = NEGATIVE if number.is_signed() else POSITIVE
    return struct.pack(f">HhHH{len(digits)}H", len(digits), weight if digits else 0, sign, len(after), *digits)


def _read_float(text: str) -> float:
    stripped = text.strip(SPACE)
    if named := NAMED.fullmatch(stripped):
        return float("nan" if named[1] is None else named[1] + "inf")
    if not NUMBER.fullmatch(stripped):
        raise ValueError
    value = float(stripped)
    if math.isinf(value) or (value == 0 and any(digit in "123456789" for digit in re.split("[eE]", stripped)[0])):
        raise OverflowError
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError
    return float(value)


def _read_float4(text: str) -> float:
    value = _read_float(text)
    (narrow,) = struct.unpack(">f", struct.pack(">f", value))
    if value and not narrow:
        raise OverflowError
    return float(narrow)


def _read_bool(text: str) -> bool:
    word = text.strip(SPACE).lower()
    if word and (word == "1" or word == "on" or "true".startswith(word) or "yes".startswith(word)):
        return True
    if word and (word == "0" or word in ("of", "off") or "false".startswith(word) or "no".startswith(word)):
        return False
    raise ValueError


def _bool(value: Any) -> bool:
    if value not in (True, False):
        raise TypeError
    return bool(value)


NUMERIC = Codec(_read_numeric, _write_numeric, _numeric_from_binary, _numeric_to_binary)
FLOAT8 = Codec(
    _read_float,
    lambda value: float8(_float(value)),
    lambda data: float(exactly(data, ">d")[0]),
    lambda value: struct.pack(">d", _float(value)),
)
FLOAT4 = Codec(
    _read_float4,
    lambda value: float4(_float(value)),
    lambda data: float(exactly(data, ">f")[0]),
    lambda value: struct.pack(">f", _float(value)),
)
# PostgreSQL takes any byte but zero for true.
BOOL = Codec(
    _read_bool,
    lambda value: "t" if _bool(value) else "f",
    lambda data: bool(exactly(data, ">B")[0]),
    lambda value: struct.pack(">?", _bool(value)),
)
