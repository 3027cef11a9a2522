"""Distributions and comparisons: labelled bars for few values, columns for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlanon.report.markup import Html
from sqlanon.report.plots.svg import CHARACTER, bar, frame, label, length, line, words
from sqlanon.report.wording import columns_of, compact, count, shorten

WIDTH = 270.0
ROW = 19.0
COLUMNS_HEIGHT = 104.0
MOST_BARS = 8  # above that a distribution is drawn as columns
MOST_SPAN = 400  # numbers stand on a true scale up to this range


def label_room(labels: Iterable[str]) -> float:
    """Room for the labels of bars: what the longest needs, within limits.

    >>> label_room(["F", "M"]), label_room(["Diabetes"]), label_room(["x" * 500])
    (24.0, 61.6, 124.0)
    """
    longest = max((columns_of(shorten(label, 60)) for label in labels), default=0)
    return min(max(longest * CHARACTER, 24.0), 124.0)


def bars(
    title: str, rows: Sequence[tuple[str, float, str]], class_: str, *, room: float, width: float = WIDTH,
    top: float = 0.0,
) -> Html:  # fmt: skip
    """A horizontal bar for each (label, value, value in words). Plots with one `top` have one scale."""
    most = top or max((value for _, value, _ in rows), default=0.0)
    value_room = 8 + CHARACTER * max((len(shown) for _, _, shown in rows), default=0)
    bar_room = width - room - 8 - value_room
    drawn: list[Html] = []
    for place, (name, value, shown) in enumerate(rows):
        y = ROW * place
        size = length(value, most, bar_room)
        hint = f"{shorten(name, 200)}: {shown}"
        drawn.append(label(room, y + 14, room, name, "end"))
        drawn.append(bar(room + 8, y + 3, size, ROW - 6, class_, hint))
        drawn.append(words(room + 8 + size + 5, y + 14, shown, "value"))
    told = "; ".join(f"{shorten(name, 60)}: {shown}" for name, _, shown in rows)
    return frame(title, told, width, max(ROW * len(rows), ROW) + 2, drawn)


def columns(title: str, rows: Sequence[tuple[str, int]], class_: str, most: int = 0) -> Html:
    """A column for each value; numbers stand where they belong on a line, other values side by side."""
    placed, slots = _places(rows)
    top = most or max((records for _, records in rows), default=0)
    base, ceiling, left = COLUMNS_HEIGHT - 20, 16.0, 0.0
    width = (WIDTH - left) / max(slots, 1)
    gap = min(width * 0.15, 2.0)
    drawn = [line(0, ceiling, WIDTH, ceiling, "grid"), words(0, ceiling - 4, compact(top), "value faint")]
    for place, name, records in placed:
        size = length(records, top, base - ceiling)
        hint = f"{shorten(name, 200)}: {count(records)}"
        drawn.append(bar(left + place * width + gap / 2, base - size, width - gap, size, class_, hint))
    drawn.append(line(0, base, WIDTH, base, "axis"))
    drawn += _ends(placed, base + 15)
    first, last = placed[0][1], placed[-1][1]
    told = f"{count(len(rows))} values from {shorten(first, 60)} to {shorten(last, 60)}, at most {count(top)} rows each"
    return frame(title, told, WIDTH, COLUMNS_HEIGHT, drawn)


def _ends(placed: Sequence[tuple[int, str, int]], y: float) -> list[Html]:
    half = WIDTH / 2 - 6
    return [label(0, y, half, placed[0][1]), label(WIDTH, y, half, placed[-1][1], "end")]


def _places(rows: Sequence[tuple[str, int]]) -> tuple[list[tuple[int, str, int]], int]:
    """Where each column stands, and how many places there are.

    >>> _places([("40", 7), ("38", 5)])
    ([(0, '38', 5), (2, '40', 7)], 3)
    >>> _places([("b", 7), ("a", 5)])
    ([(0, 'b', 7), (1, 'a', 5)], 2)
    """
    numbers = [int(name) for name, _ in rows if name.isascii() and name.lstrip("-").isdigit() and len(name) < 12]
    if len(numbers) < len(rows) or len(set(numbers)) < len(rows):
        return [(place, name, records) for place, (name, records) in enumerate(rows)], len(rows)
    ordered = sorted(zip(numbers, rows, strict=True))
    start, end = ordered[0][0], ordered[-1][0]
    if end - start >= MOST_SPAN:
        return [(place, name, records) for place, (_, (name, records)) in enumerate(ordered)], len(rows)
    return [(at - start, name, records) for at, (name, records) in ordered], end - start + 1


def distribution(title: str, rows: Sequence[tuple[str, int]], class_: str, room: float, top: int = 0) -> Html:
    """The distribution of one attribute, in the form that suits the number of its values."""
    if len(rows) > MOST_BARS:
        return columns(title, rows, class_, top)
    return bars(title, [(name, records, count(records)) for name, records in rows], class_, room=room, top=top)
