"""Dates in a policy: written as ISO 8601 has them, without a time zone."""

from __future__ import annotations

import re
from datetime import date, datetime

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?", re.ASCII)


def date_of(text: str) -> date | datetime | None:
    """The date, or the date and time, that a text stands for.

    >>> date_of("2024-01-31"), date_of("2024-01-31 12:30"), date_of("2024-02-30"), date_of("31.1.2024")
    (datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 12, 30), None, None)
    """
    try:
        if not DATE.fullmatch(text):
            return None
        return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
    except ValueError:
        return None
