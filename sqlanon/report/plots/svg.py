"""What all plots share: the frame, labels that stay within their room, and axes with round numbers."""

from __future__ import annotations

import math

from sqlanon.report.markup import Content, Html, element
from sqlanon.report.wording import shorten

CHARACTER = 7.7  # units that a character of a label takes at most on average: a digit of a wide font at 12 px
MOST_TITLE = 300  # characters of a label that a pointer shows


def frame(title: str, description: str, width: float, height: float, *content: Content) -> Html:
    """A plot with its name and what it shows in words, for those who do not see it."""
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *content,
        class_="plot",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=f"{title}. {description}",
    )


def words(x: float, y: float, content: str, class_: str = "", anchor: str = "start", title: str | None = None) -> Html:
    return element(
        "text",
        element("title", title) if title else None,
        content,
        x=float(x),
        y=float(y),
        class_=class_ or None,
        text_anchor=None if anchor == "start" else anchor,
    )


def label(x: float, y: float, room: float, content: str, anchor: str = "start", class_: str = "") -> Html:
    """A label of unknown length: cut to the room that it has, with all of it under the pointer.

    The inner <svg> clips what the estimate of its width got wrong.
    """
    short = shorten(content, max(room / CHARACTER + 0.01, 3))
    left = {"start": x, "end": x - room, "middle": x - room / 2}[anchor]
    inside = {"start": 0.0, "end": room, "middle": room / 2}[anchor]
    full = shorten(content, MOST_TITLE)
    text = words(inside, 12, short, class_, anchor, title=full if full != short else None)
    return element("svg", text, x=float(left), y=y - 12.0, width=float(room), height=17, overflow="hidden")


def bar(x: float, y: float, width: float, height: float, class_: str, title: str | None = None) -> Html:
    hint = element("title", title) if title else None
    return element(
        "rect", hint, x=float(x), y=float(y), width=max(float(width), 0.0), height=float(height), class_=class_
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def length(value: float, top: float, room: float) -> float:
    """How long a bar is: what is there stays visible.

    >>> length(50, 100, 200), length(0, 100, 200), length(1, 10**6, 200)
    (100.0, 0.0, 1.0)
    """
    if value <= 0 or top <= 0:
        return 0.0
    return max(min(value / top, 1.0) * room, 1.0)


def ticks(top: float, about: int = 5) -> list[float]:
    """Round numbers from 0 to at least `top`.

    >>> ticks(0.43), ticks(1.0), ticks(0), ticks(7300)
    ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 1.0], [0.0, 2000.0, 4000.0, 6000.0, 8000.0])
    """
    if not 0 < top < 1e300:
        return [0.0, 1.0]
    raw = top / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = next((factor * size for factor in (1, 2, 5, 10) if factor * size >= raw * 0.9999), raw)
    return [float(f"{step * place:.12g}") for place in range(math.ceil(top / step * 0.9999) + 1)]
