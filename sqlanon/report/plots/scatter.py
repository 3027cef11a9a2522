"""The map of risk and utility: one numbered point for each release, and the line of those that none beats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlanon.report.markup import Html, element
from sqlanon.report.plots.svg import frame, line, ticks, words
from sqlanon.report.wording import share

WIDTH, HEIGHT = 420.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 34.0, 26.0, 44.0
MARK, NEAR = 4.5, 9.0  # points nearer than that share one label


@dataclass(frozen=True)
class Point:
    number: int
    name: str
    risk: float
    loss: float
    best: bool


def scatter(points: Sequence[Point]) -> Html:
    """Less is better on both axes: the best lie at the lower left, joined by a line."""
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    risks, losses = (ticks(max((value for value in values), default=0.0)) for values in
                     ([item.risk for item in points], [item.loss for item in points]))  # fmt: skip

    def x(risk: float) -> float:
        return LEFT + across * risk / risks[-1]

    def y(loss: float) -> float:
        return HEIGHT - BOTTOM - down * loss / losses[-1]

    drawn = _grid(risks, losses, x, y)
    best = sorted((item for item in points if item.best), key=lambda item: (item.risk, -item.loss))
    if len(best) > 1:
        path = " ".join(f"{x(item.risk):.1f},{y(item.loss):.1f}" for item in best)
        drawn.append(element("polyline", points=path, class_="series s1"))
    for item in points:
        hint = element("title", f"{item.number}: {item.name}, risk {share(item.risk)}, loss {share(item.loss)}")
        shade = "s1" if item.best else "s3"
        drawn.append(element("circle", hint, cx=x(item.risk), cy=y(item.loss), r=MARK, class_=f"mark {shade}"))
        if item.best:  # no meaning rests on colour alone
            drawn.append(element("circle", cx=x(item.risk), cy=y(item.loss), r=MARK + 3, class_="ring"))
    drawn += [
        words(left + 10, top - 6, ", ".join(map(str, numbers)), "value")
        for left, top, numbers in _labels([(x(item.risk), y(item.loss), item.number) for item in points])
    ]
    drawn.append(words(0, 12, "information loss", "faint"))
    drawn.append(words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "disclosure risk", "faint", "middle"))
    told = "; ".join(
        f"{item.number}: risk {share(item.risk)}, loss {share(item.loss)}{', best' if item.best else ''}"
        for item in points
    )
    return frame("Disclosure risk and information loss of each release", told, WIDTH, HEIGHT, drawn)


def _grid(
    risks: Sequence[float], losses: Sequence[float], x: Callable[[float], float], y: Callable[[float], float]
) -> list[Html]:
    drawn: list[Html] = []
    for step in losses:
        drawn.append(line(LEFT, y(step), WIDTH - RIGHT, y(step), "axis" if step == 0 else "grid"))
        drawn.append(words(LEFT - 6, y(step) + 4, share(step), "value faint", "end"))
    for step in risks:
        drawn.append(line(x(step), TOP, x(step), HEIGHT - BOTTOM, "axis" if step == 0 else "grid"))
        drawn.append(words(x(step), HEIGHT - BOTTOM + 16, share(step), "value faint", "middle"))
    return drawn


def _labels(places: Sequence[tuple[float, float, int]]) -> list[tuple[float, float, list[int]]]:
    """Where labels go; points that lie on each other have one.

    >>> _labels([(10, 10, 1), (12, 11, 2), (90, 10, 3)])
    [(10, 10, [1, 2]), (90, 10, [3])]
    """
    found: list[tuple[float, float, list[int]]] = []
    for left, top, number in places:
        near = next((item for item in found if abs(item[0] - left) < NEAR and abs(item[1] - top) < NEAR), None)
        if near is None:
            found.append((left, top, [number]))
        else:
            near[2].append(number)
    return found
