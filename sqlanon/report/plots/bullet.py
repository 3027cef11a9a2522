"""Where a measured value stands against what is required, on one line."""

from __future__ import annotations

import math

from sqlanon.report.markup import Html, element
from sqlanon.report.plots.svg import bar, frame, line
from sqlanon.report.wording import measure

WIDTH, HEIGHT = 120.0, 14.0


def bullet(measured: float, required: float, *, at_least: bool, holds: bool) -> Html | None:
    """A dot for the measured value, a tick for the required one, and a tint on the side that is allowed."""
    if not (math.isfinite(measured) and math.isfinite(required)) or min(measured, required) < 0:
        return None
    top = max(measured, required) * 1.25 or 1.0
    if not math.isfinite(top):
        return None
    edge, dot = (6 + (WIDTH - 12) * (value / top) for value in (required, measured))
    allowed = (edge, WIDTH - edge) if at_least else (0.0, edge)
    words = f"measured {measure(measured)}, {'at least' if at_least else 'at most'} {measure(required)} required"
    return frame(
        "Margin", words, WIDTH, HEIGHT,
        bar(0, 4, WIDTH, 6, "track"),
        bar(allowed[0], 4, allowed[1], 6, "allowed"),
        line(edge, 0, edge, HEIGHT, "required"),
        element("circle", cx=dot, cy=7.0, r=4.5, class_="dot good" if holds else "dot bad"),
    )  # fmt: skip
