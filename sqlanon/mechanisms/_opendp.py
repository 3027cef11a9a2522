"""The only door to OpenDP: imported late, and with the one feature that its mechanisms ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from sqlanon.errors import MechanismError
from sqlanon.mechanisms._checks import bounded_scale


@cache
def opendp(module: str) -> Any:
    """A module of OpenDP, named without its package."""
    import_module("opendp.mod").enable_features("contrib")
    return import_module(f"opendp.{module}")


@cache
def integers() -> Any:
    """The domain of vectors of 64-bit integers."""
    domains = opendp("domains")
    return domains.vector_domain(domains.atom_domain(T="i64"))


def calibrate_scale(build: Callable[[float], Any], sensitivity: float, limit: float, scale: float) -> tuple[Any, float]:
    """A measurement, and its scale: the given one, or the next floats above it until the privacy map keeps the limit.

    OpenDP rounds its maps up, so the scale that real arithmetic gives may cost one bit more than the limit.
    """
    for _ in range(16):
        measurement = build(bounded_scale(scale))
        if measurement.map(sensitivity) <= limit:
            return measurement, scale
        scale = math.nextafter(scale, math.inf)
    raise MechanismError(f"no noise scale keeps the privacy loss at {limit:g}")


def zero_concentrated(pure: Any, sensitivity: float) -> float:
    """What a purely epsilon-private measurement costs under zCDP."""
    return float(opendp("combinators").make_pureDP_to_zCDP(pure).map(sensitivity))
