"""What more privacy costs: the loss over k, one line for each suppression limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from sqlanon.report.markup import Html, element
from sqlanon.report.plots.svg import frame, line, ticks, words
from sqlanon.report.wording import share

WIDTH, HEIGHT = 360.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 62.0, 26.0, 40.0
LABEL_GAP = 14.0
SHADES = 6
MARK = 3.2

Series = Mapping[float, Mapping[int, float]]  # suppression limit -> k -> loss


def _spread(heights: Sequence[float], low: float, high: float) -> list[float]:
    """Heights of labels, moved apart so that none covers another.

    >>> _spread([10, 11, 60], 0, 100)
    [10, 24.0, 60]
    """
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    gap = min(LABEL_GAP, (high - low) / max(len(heights) - 1, 1))
    moved = list(heights)
    for before, place in pairwise(order):
        moved[place] = max(moved[place], moved[before] + gap)
    if order and moved[order[-1]] > high:
        moved[order[-1]] = high
        for after, place in pairwise(reversed(order)):
            moved[place] = min(moved[place], moved[after] - gap)
    return moved


def _grid(steps: Sequence[float], ks: Sequence[int], x: Callable[[int], float], y: Callable[[float], float],
          shown: Callable[[float], str]) -> list[Html]:  # fmt: skip
    drawn: list[Html] = []
    for step in steps:
        drawn.append(line(LEFT, y(step), WIDTH - RIGHT, y(step), "axis" if step == 0 else "grid"))
        drawn.append(words(LEFT - 6, y(step) + 4, shown(step), "value faint", "end"))
    room = x(ks[-1]) - x(ks[0]) if len(ks) > 1 else WIDTH
    every = max(-(-len(ks) * 26 // max(int(room), 1)), 1)
    drawn += [words(x(k), HEIGHT - BOTTOM + 16, str(k), "value", "middle") for k in ks[::every]]
    drawn.append(words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "smallest class required (k)", "faint", "middle"))
    return drawn


def _series(points: Sequence[tuple[float, float]], hints: Sequence[str], shade: int) -> list[Html]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    drawn = [element("polyline", points=path, class_=f"series s{shade}")]
    for (x, y), hint in zip(points, hints, strict=True):
        drawn.append(element("circle", element("title", hint), cx=x, cy=y, r=MARK, class_=f"mark s{shade}"))
    return drawn


def lines(series: Series, chosen: tuple[float, int] | None, shown: Callable[[float], str], what: str) -> Html:
    """Lines with their limit written at the end; the chosen point has a ring."""
    ks = sorted({k for line_ in series.values() for k in line_})
    steps = ticks(max((loss for line_ in series.values() for loss in line_.values()), default=0.0))
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(k: int) -> float:
        return LEFT + 8 + (across - 16) * (ks.index(k) / (len(ks) - 1) if len(ks) > 1 else 0.5)

    def y(loss: float) -> float:
        return HEIGHT - BOTTOM - down * loss / steps[-1]

    drawn = _grid(steps, ks, x, y, shown)
    limits = sorted(series)
    ends = _spread([y(series[limit][max(series[limit])]) for limit in limits], TOP, HEIGHT - BOTTOM)
    for place, limit in enumerate(limits):
        shade = round(place * (SHADES - 1) / max(len(limits) - 1, 1))
        points = [(x(k), y(loss)) for k, loss in sorted(series[limit].items())]
        hints = [f"k = {k}, limit {share(limit)}: {shown(loss)}" for k, loss in sorted(series[limit].items())]
        drawn += _series(points, hints, shade)
        drawn.append(line(points[-1][0] + 6, points[-1][1], WIDTH - RIGHT + 12, ends[place], "leader"))
        drawn.append(words(WIDTH - RIGHT + 15, ends[place] + 4, share(limit), f"value t{shade}"))
    drawn.append(words(WIDTH - RIGHT + 15, 12, "limit", "faint"))
    drawn.append(words(0, 12, what, "faint"))
    if chosen and chosen[1] in series.get(chosen[0], {}):
        limit, k = chosen
        drawn.append(element("circle", cx=x(k), cy=y(series[limit][k]), r=8.0, class_="ring"))
    told = "; ".join(
        f"limit {share(limit)}: " + ", ".join(f"k {k} {shown(loss)}" for k, loss in sorted(series[limit].items()))
        for limit in limits
    )
    return frame("Loss by required class size and suppression limit", told, WIDTH, HEIGHT, drawn)
