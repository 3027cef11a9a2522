"""The error that a statement may ask for in place of an epsilon. Servers read it too, and load no engine for that."""

from __future__ import annotations

import math

from sqlanon.errors import Refused

LARGEST_ERROR = 1e15


def read_error(given: object) -> float:
    """An error as it is asked for: a number above 0.

    >>> read_error("50"), read_error(0.5)
    (50.0, 0.5)
    """
    if isinstance(given, str) and given.strip().endswith("%"):
        raise Refused(
            "an error in percent is not answered: how large the answer is is not known before it is paid for",
            hint="give the error as a number, such as 50 for ± 50",
            sqlstate="0A000",
        )
    try:
        error = float(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else math.nan
    except ValueError:
        error = math.nan
    if not 0 < error <= LARGEST_ERROR:
        raise Refused("an error is a number above 0", hint="give for example 50 for ± 50", sqlstate="22023")
    return error
