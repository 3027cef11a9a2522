"""Values of a JSON document that anybody may have changed: each has the type that is asked for, or is None or empty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def number(value: Any) -> float | None:
    """A number, which may be infinite; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return (
        value if isinstance(value, int) else float(value)
    )  # as it was written: 5 stays 5, and is not written as 5.0 again


def whole(value: Any) -> int | None:
    """A whole number, however large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def quantity(value: Any) -> int | None:
    """How many there are of something."""
    read = whole(value)
    return read if read is not None and read >= 0 else None


def part(value: Any) -> float | None:
    """A share of a whole."""
    read = number(value)
    return read if read is not None and 0 <= read <= 1 else None


def ratio(some: int, every: int) -> float:
    try:
        return some / every
    except OverflowError:
        return math.inf


def drawable(value: Any) -> float | None:
    """A number that can be drawn."""
    read = number(value)
    return read if read is not None and 0 <= read < 1e300 else None


def text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def texts(value: Any) -> tuple[str, ...]:
    return tuple(text(item) for item in items(value) if item is not None)


def numbers(value: Any, read: Callable[[Any], T | None]) -> dict[str, T]:
    found = {text(name): read(item) for name, item in mapping(value).items()}
    return {name: item for name, item in found.items() if item is not None}
