"""Intervals: months, days and microseconds, which do not add up to one number.

A value is a timedelta, or a tuple of months, days and nanoseconds, as Arrow has it, where a timedelta would lose
what PostgreSQL tells apart: months, 24 hours from a day, and signs that differ.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from fractions import Fraction
from typing import Any, NamedTuple

from sqlanon.pgwire.codecs import Codec
from sqlanon.pgwire.codecs.numbers import SPACE, exactly

SECOND = 1_000_000
DAY = 86_400 * SECOND
LONGEST = 800_000_000  # days; Python's timedelta ends a little later
MOST_TEXT = 256
# Each unit as months, days and microseconds.
UNITS: dict[str, tuple[int, int, int]] = {
    "millennium": (12_000, 0, 0),
    "century": (1_200, 0, 0),
    "decade": (120, 0, 0),
    "year": (12, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3600 * SECOND),
    "minute": (0, 0, 60 * SECOND),
    "second": (0, 0, SECOND),
    "millisecond": (0, 0, 1000),
    "microsecond": (0, 0, 1),
}
SPELLINGS = {
    "millennium": "millennium millennia mil mils",
    "century": "century centuries c cent",
    "decade": "decade decades dec decs",
    "year": "year years y yr yrs",
    "month": "month months mon mons",
    "week": "week weeks w",
    "day": "day days d",
    "hour": "hour hours h hr hrs",
    "minute": "minute minutes m min mins",
    "second": "second seconds s sec secs",
    "millisecond": "millisecond milliseconds ms msec msecs",
    "microsecond": "microsecond microseconds us usec usecs",
}
WORDS = {word: UNITS[unit] for unit, words in SPELLINGS.items() for word in words.split()}
ISO_DATE = {"Y": UNITS["year"], "M": UNITS["month"], "W": UNITS["week"], "D": UNITS["day"]}
ISO_TIME = {"H": UNITS["hour"], "M": UNITS["minute"], "S": UNITS["second"]}
AMOUNT = r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})"
CLOCK = r"([+-]?)([0-9]{1,10}):([0-9]{1,2})(?::([0-9]{1,2}(?:\.[0-9]{0,15})?))?"
TOKEN = re.compile(rf"[{SPACE},]*(?:{CLOCK}|({AMOUNT})[{SPACE}]*([a-z]+|(?=[{SPACE}]*$)))(?=[{SPACE},+-]|$)")
ISO = re.compile(rf"P((?:{AMOUNT}[YMWD])*)(?:T((?:{AMOUNT}[HMS])+))?")
PART = re.compile(rf"({AMOUNT})([A-Z])")


class PgInterval(NamedTuple):
    """As Arrow's month_day_nano."""

    months: int
    days: int
    nanoseconds: int


def parts(value: Any) -> tuple[int, int, int]:
    """Months, days and microseconds of a timedelta or a tuple."""
    if isinstance(value, dt.timedelta):
        total = value // dt.timedelta(microseconds=1)
        days = abs(total) // DAY * (1 if total >= 0 else -1)
        return 0, days, total - days * DAY
    if not isinstance(value, tuple) or len(value) != 3:
        raise TypeError
    months, days, nanoseconds = value
    return months, days, nanoseconds // 1000


def write(months: int, days: int, micros: int) -> str:
    """PostgreSQL's own style: a sign after each part that is negative.

    >>> write(14, -3, 3_723_500_000), write(0, 0, 0), write(0, 1, -1)
    ('1 year 2 mons -3 days +01:02:03.5', '00:00:00', '1 day -00:00:00.000001')
    """
    years = int(math.copysign(abs(months) // 12, months))
    words, negative = [], False
    for amount, unit in ((years, "year"), (months - 12 * years, "mon"), (days, "day")):
        if amount:
            words.append(f"{'+' if negative and amount > 0 else ''}{amount} {unit}{'' if amount == 1 else 's'}")
            negative = amount < 0
    if micros or not words:
        seconds, fraction = divmod(abs(micros), SECOND)
        sign = "-" if micros < 0 else "+" if negative else ""
        clock = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        words.append(clock + (f".{fraction:06d}".rstrip("0") if fraction else ""))
    return " ".join(words)


def _value(months: int, days: int, micros: int) -> dt.timedelta | PgInterval:
    if not (min(months, days) >= -(2**31) and max(months, days) < 2**31 and -(2**63) <= micros < 2**63):
        raise OverflowError
    if not months and abs(days) < LONGEST:
        value = dt.timedelta(days=days, microseconds=micros)
        if parts(value) == (0, days, micros):
            return value
    return PgInterval(months, days, micros * 1000)


def _add(total: list[int], amount: str, unit: tuple[int, int, int]) -> None:
    """A part of a month goes to the days, of a day to the clock, as in PostgreSQL."""
    number = Fraction(amount + "0" if amount.endswith(".") else amount)
    months, days, micros = (number * each for each in unit)
    if unit[0] > 1:
        months = Fraction(round(months))
    total[0] += math.trunc(months)
    days += (months - math.trunc(months)) * 30
    total[1] += math.trunc(days)
    total[2] += round(micros + (days - math.trunc(days)) * DAY)


def _read(text: str) -> dt.timedelta | PgInterval:
    total = [0, 0, 0]
    stripped = text.strip(SPACE)
    if len(stripped) > MOST_TEXT:
        raise ValueError
    if found := ISO.fullmatch(stripped):
        if not found[0].strip("PT"):
            raise ValueError
        for half, units in ((found[1], ISO_DATE), (found[2] or "", ISO_TIME)):
            for amount, letter in PART.findall(half):
                _add(total, amount, units[letter])
        return _value(*total)
    body = stripped.lower().removeprefix("@")
    ago = body.endswith("ago")
    body = body.removesuffix("ago").strip(SPACE)
    at = 0
    while at < len(body):
        token = TOKEN.match(body, at)
        if not token:
            raise ValueError
        sign, hours, minutes, seconds, amount, word = token.groups()
        if hours is not None:
            if int(minutes) > 59 or float(seconds or 0) >= 60:
                raise OverflowError
            micros = (int(hours) * 60 + int(minutes)) * 60 * SECOND + round(float(seconds or 0) * SECOND)
            total[2] += -micros if sign == "-" else micros
        elif (word or "second") not in WORDS:
            raise ValueError
        else:
            _add(total, amount, WORDS[word or "second"])
        at = token.end()
    if not body:
        raise ValueError
    return _value(*(-each for each in total)) if ago else _value(*total)


def _from_binary(data: bytes) -> dt.timedelta | PgInterval:
    micros, days, months = exactly(data, ">qii")
    return _value(months, days, micros)


def _to_binary(value: Any) -> bytes:
    months, days, micros = parts(value)
    try:
        return struct.pack(">qii", micros, days, months)
    except struct.error:
        raise OverflowError from None


INTERVALS = Codec(_read, lambda value: write(*parts(value)), _from_binary, _to_binary, "22007", "22015")
