"""Dates, times and timestamps, in ISO style and UTC. What Python's calendar cannot hold is refused as out of range."""

from __future__ import annotations

import datetime as dt
import re
import struct
from typing import Any

from sqlanon.pgwire.codecs import Codec
from sqlanon.pgwire.codecs.numbers import SPACE, exactly

EPOCH = dt.datetime(2000, 1, 1)
DAYS_BEFORE = EPOCH.toordinal()
MICROSECOND = dt.timedelta(microseconds=1)
DAY = 86_400_000_000  # microseconds

ZONE = r"(?P<zone>[zZ]|UTC|utc|GMT|gmt|[+-][0-9]{1,2}(?::?[0-9]{2}(?::?[0-9]{2})?)?)"
CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]*))?)?"
DATE = r"(?:(?P<year>[0-9]{4,7})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})|(?P<compact>[0-9]{8}))"
STAMP = re.compile(rf"{DATE}(?:(?:[T ] *){CLOCK})?(?: *{ZONE})?(?P<bc> +BC)?")
TIME = re.compile(rf"{CLOCK}(?: *{ZONE})?")
INFINITE = re.compile("[+-]?infinity", re.IGNORECASE)


def _microseconds(found: re.Match[str]) -> int:
    """The time of day; 24:00 and a sixtieth second are those of PostgreSQL."""
    if found["hour"] is None:
        return 0
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    fraction = round(float(f"0.{found['fraction'] or 0}") * 1_000_000)
    total = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction
    if minute > 59 or second > 60 or total > DAY:
        raise OverflowError
    return total


def _offset(zone: str | None) -> dt.timedelta:
    if not zone or zone[0] not in "+-":
        return dt.timedelta()
    digits = zone[1:].replace(":", "")
    hours, minutes, seconds = (
        (int(digits[at : at + 2] or 0) for at in (0, 2, 4))
        if len(digits) > 1
        else (
            int(digits),
            0,
            0,
        )
    )
    if hours > 15 or minutes > 59 or seconds > 59:
        raise OverflowError
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return -offset if zone[0] == "-" else offset


def _stamp(text: str) -> tuple[dt.datetime, dt.timedelta]:
    stripped = text.strip(SPACE)
    if INFINITE.fullmatch(stripped):
        raise OverflowError
    found = STAMP.fullmatch(stripped)
    if not found:
        raise ValueError
    if found["compact"]:
        year, month, day = int(found["compact"][:4]), int(found["compact"][4:6]), int(found["compact"][6:])
    else:
        year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
    if found["bc"]:
        raise OverflowError
    try:
        midnight = dt.datetime(year, month, day)
    except ValueError:
        raise OverflowError from None  # a field that is out of range
    return midnight + dt.timedelta(microseconds=_microseconds(found)), _offset(found["zone"])


def _date(value: Any) -> dt.date:
    if not isinstance(value, dt.date):
        raise TypeError
    return value.date() if isinstance(value, dt.datetime) else value


def _date_from_binary(data: bytes) -> dt.date:
    try:
        return dt.date.fromordinal(exactly(data, ">i")[0] + DAYS_BEFORE)
    except ValueError:
        if len(data) != 4:
            raise
        raise OverflowError from None


def _seconds(value: dt.time | dt.datetime) -> str:
    text = f"{value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    return f"{text}.{value.microsecond:06d}".rstrip("0") if value.microsecond else text


def _read_time(text: str) -> dt.time:
    found = TIME.fullmatch(text.strip(SPACE))
    if not found:
        raise ValueError
    _offset(found["zone"])  # PostgreSQL reads the zone and forgets it
    return _time_of(_microseconds(found))


def _time_of(micros: int) -> dt.time:
    if not 0 <= micros < DAY:
        raise OverflowError
    return (EPOCH + dt.timedelta(microseconds=micros)).time()


def _time(value: Any) -> dt.time:
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise TypeError
    return value


def _time_to_binary(value: Any) -> bytes:
    time = _time(value)
    return struct.pack(">q", ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond)


def _local(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        raise TypeError
    return value


def _utc(value: Any) -> dt.datetime:
    """The instant in UTC, without a zone; a value without one is in UTC."""
    if not isinstance(value, dt.datetime):
        raise TypeError
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


def _read_utc(text: str) -> dt.datetime:
    local, offset = _stamp(text)
    return (local - offset).replace(tzinfo=dt.UTC)


def _write(value: dt.datetime) -> str:
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d} {_seconds(value)}"


def _from_binary(data: bytes) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=exactly(data, ">q")[0])


def _to_binary(value: dt.datetime) -> bytes:
    return struct.pack(">q", (value - EPOCH) // MICROSECOND)


CODES = ("22007", "22008")
DATES = Codec(
    lambda text: _stamp(text)[0].date(),
    lambda value: f"{_date(value).year:04d}-{_date(value).month:02d}-{_date(value).day:02d}",
    _date_from_binary,
    lambda value: struct.pack(">i", _date(value).toordinal() - DAYS_BEFORE),
    *CODES,
)
TIMES = Codec(
    _read_time,
    lambda value: _seconds(_time(value)),
    lambda data: _time_of(exactly(data, ">q")[0]),
    _time_to_binary,
    *CODES,
)
TIMESTAMPS = Codec(
    lambda text: _stamp(text)[0],
    lambda value: _write(_local(value)),
    _from_binary,
    lambda value: _to_binary(_local(value)),
    *CODES,
)
TIMESTAMPTZ = Codec(
    _read_utc,
    lambda value: _write(_utc(value)) + "+00",
    lambda data: _from_binary(data).replace(tzinfo=dt.UTC),
    lambda value: _to_binary(_utc(value)),
    *CODES,
)
