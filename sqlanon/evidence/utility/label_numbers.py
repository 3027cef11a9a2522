"""How a released label is read as a number: an interval by its middle.

    33                  33
    [30, 40)            35, the middle of its ends; so [30, 40] and 30-40
    <20, >=90           20, 90: an open end is read as where it begins
    {NULL, [30, 40)}    35; of several parts the mean
    *                   nothing: the number is hidden

Dates are read as days since 1970 in the same way. A label that is none of these has no number: it is hidden. Labels of
a hierarchy of categories are no numbers, even those of a column of numbers, such as the prefix of a code.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_DATE = r"\d{4,6}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[+-]\d\d(?::?\d\d)?)?)?"
_INTERVAL = re.compile(r"[\[(]\s*([^,\[\](){}]+?)\s*,\s*([^,\[\](){}]+?)\s*[\])\[]")
_FROM_TO = re.compile(rf"({_NUMBER})\s*[-–]\s*({_NUMBER})")
_OPEN = re.compile(r"(?:<=|>=|<|>|≤|≥)\s*(.+)")
_PARTS = re.compile(r"\s*[\[(][^\[\](){}]*[\])]|[^,{}]+")


def number_of(label: str, *, dates: bool = False) -> float | None:
    """
    >>> [number_of(label) for label in ("33", "[30, 40)", "20-29", ">=90", "{NULL, [30, 40]}", "{1, 4}", "*")]
    [33.0, 35.0, 24.5, 90.0, 35.0, 2.5, None]
    >>> number_of("[1970-01-01, 1970-01-03]", dates=True)
    1.0
    """
    label = label.strip()
    plain = _date(label) if dates else _plain(label)
    if plain is not None:
        return plain
    if found := _INTERVAL.fullmatch(label) or (None if dates else _FROM_TO.fullmatch(label)):
        return _mean([number_of(end, dates=dates) for end in found.groups()])
    if found := _OPEN.fullmatch(label):
        return _date(found[1]) if dates else _plain(found[1])
    if label.startswith("{") and label.endswith("}"):
        parts = [part.strip() for part in _PARTS.findall(label[1:-1])]
        return _mean([number_of(part, dates=dates) for part in parts if part not in ("", "NULL")])
    return None


def _mean(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(parts) else None


def _plain(text: str) -> float | None:
    if not re.fullmatch(_NUMBER, text.strip(), re.ASCII):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def _date(text: str) -> float | None:
    if not re.fullmatch(_DATE, text.strip(), re.ASCII):
        return None
    try:
        if len(text.strip()) == 10:
            return float((date.fromisoformat(text.strip()) - date(1970, 1, 1)).days)
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() / 86400
