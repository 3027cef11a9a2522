"""Journeys without a map: times from left to right, a line for each place, dots for visits, lines for moves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlanon.report.markup import Html, element
from sqlanon.report.plots.svg import frame, label, line, words

LEFT, TOP, ROW, WIDTH = 150.0, 20.0, 34.0, 720.0
MOST_RADIUS = 11.0


def draw_journeys(
    places: Sequence[str],
    times: Sequence[str],
    visits: Sequence[tuple[int, str, int]],
    moves: Sequence[tuple[int, str, int, str, int]],
) -> Html:
    """Visits are (time, place, how many), moves go from one to another; times count from 1."""
    last = max([1, *(time for time, _, _ in visits)])
    step = (WIDTH - LEFT - 20) / max(last - 1, 1)
    most = max([1, *(n for _, _, n in visits)])
    rows = {place: TOP + ROW * (number + 0.5) for number, place in enumerate(places)}

    def across(time: int) -> float:
        return LEFT + step * (time - 1)

    bottom = TOP + ROW * len(places)
    grid = [line(LEFT, y, WIDTH - 20, y, "grid") for y in rows.values()]
    names = [label(LEFT - 16, y + 4, LEFT - 24, place, anchor="end") for place, y in rows.items()]
    paths = [
        element(
            "line",
            element("title", f"{n:,} go from {place} to {following}"),
            x1=round(across(time), 1),
            y1=rows[place],
            x2=round(across(then), 1),
            y2=rows[following],
            stroke="var(--after)",
            stroke_opacity=round(0.15 + 0.6 * math.sqrt(n / most), 2),
            stroke_width=round(0.5 + 5 * n / most, 2),
        )
        for time, place, then, following, n in moves
        if place in rows and following in rows and max(time, then) <= last
    ]
    dots = [
        element(
            "circle",
            element("title", f"{n:,} visits at {place}, {times[time - 1] if time <= len(times) else f'visit {time}'}"),
            cx=round(across(time), 1),
            cy=rows[place],
            r=round(max(1.5, MOST_RADIUS * math.sqrt(n / most)), 1),
            fill="var(--after)",
        )
        for time, place, n in visits
        if place in rows
    ]
    every = max(1, math.ceil(last / 6))
    shown = [
        words(across(time), bottom + 18, times[time - 1][-16:] if time <= len(times) else str(time), "tick", "middle")
        for time in range(1, last + 1, every)
    ]
    description = f"{len(places)} places, {last} times or visits; the largest dot stands for {most:,} visits."
    return frame("Journeys of the release", description, WIDTH, bottom + 30, *grid, *paths, *dots, *names, *shown)
