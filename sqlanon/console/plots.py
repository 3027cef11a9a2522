"""Drawings of the console: answers with their error bars, and how a budget burns down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlanon.console.budget_view import Account, end_of
from sqlanon.errors import number
from sqlanon.report.markup import Html, element
from sqlanon.report.plots.bars import ROW, label_room
from sqlanon.report.plots.svg import CHARACTER, bar, frame, label, line, ticks, words
from sqlanon.report.wording import compact

WIDTH = 560.0
HEIGHT = 190.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 12.0, 14.0, 26.0


@dataclass(frozen=True)
class Bar:
    name: str
    value: float
    low: float
    high: float


def draw_answer(title: str, rows: Sequence[Bar]) -> Html:
    """A bar for each row with the interval that holds the exact value in 95 of 100 cases."""
    room = label_room(row.name for row in rows)
    marks = ticks(max(max(row.value, row.high) for row in rows))
    least = min(0.0, *(row.low for row in rows))
    value_room = 12 + CHARACTER * max(len(number(row.value)) for row in rows)
    space = WIDTH - room - 8 - value_room

    def at(value: float) -> float:
        return room + 8 + (value - least) / (marks[-1] - least) * space

    drawn = [line(at(0), 0, at(0), ROW * len(rows), "axis")]
    for place, row in enumerate(rows):
        y = ROW * place
        told = f"{row.name}: {number(row.value)}, {number(row.low)} to {number(row.high)}"
        first, last = sorted((at(0), at(row.value)))
        drawn.append(label(room, y + 14, room, row.name, "end"))
        drawn.append(bar(first, y + 3, last - first, ROW - 6, "after", told))
        middle = y + ROW / 2
        drawn.append(line(at(row.low), middle, at(row.high), middle, "whisker"))
        drawn += [line(at(end), middle - 4, at(end), middle + 4, "whisker") for end in (row.low, row.high)]
        drawn.append(words(max(at(row.high), last) + 6, y + 14, number(row.value), "value"))
    told = "; ".join(f"{row.name}: {number(row.value)} ({number(row.low)} to {number(row.high)})" for row in rows)
    return frame(f"{title}, with error bars", told, WIDTH, ROW * len(rows) + 2, drawn)


def draw_burn_down(account: Account, now: datetime) -> Html | None:
    """What was left after each charge of the period, the limit, and the line on to when it would be spent.

    Only where epsilons are simply added: otherwise single charges do not add up to what is spent.
    """
    limit = account.standing.limit.epsilon
    charges = [event for event in account.events if event.kind == "charge"]
    spent = sum(event.epsilon for event in charges)
    if not charges or not limit or abs(spent - account.standing.left.spent.epsilon) > 1e-6:
        return None
    start = account.start or datetime.fromisoformat(charges[0].at)
    end = end_of(account, now)
    marks = ticks(limit, 4)
    whole = max((end - start).total_seconds(), 1.0)

    def x(when: datetime) -> float:
        return LEFT + min(max((when - start).total_seconds() / whole, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (1 - max(value, 0.0) / marks[-1]) * (HEIGHT - TOP - BOTTOM)

    drawn = [line(LEFT, y(mark), WIDTH - RIGHT, y(mark), "grid") for mark in marks]
    drawn += [words(LEFT - 6, y(mark) + 4, compact(mark), "faint", "end") for mark in marks]
    left, path = limit, [f"M{x(start):.1f} {y(limit):.1f}"]
    for event in charges:
        path.append(f"H{x(datetime.fromisoformat(event.at)):.1f}")
        left -= event.epsilon
        path.append(f"V{y(left):.1f}")
    path.append(f"H{x(now):.1f}")
    drawn.append(element("path", d="".join(path), class_="series s1"))
    told = f"epsilon {number(left)} of {number(limit)} is left"
    if account.runs_out is not None:
        reach = min(account.runs_out, end)
        share = (reach - now).total_seconds() / max((account.runs_out - now).total_seconds(), 1e-9)
        drawn.append(line(x(now), y(left), x(reach), y(left * (1 - share)), "forecast"))
        told += f"; spent on as fast as until now, it ends on {account.runs_out:%Y-%m-%d}"
    drawn.append(element("circle", cx=x(now), cy=y(left), r=4, class_="dot now"))
    drawn.append(line(LEFT, y(0), WIDTH - RIGHT, y(0), "axis"))
    drawn.append(words(LEFT, HEIGHT - 8, f"{start:%Y-%m-%d}", "faint"))
    drawn.append(words(WIDTH - RIGHT, HEIGHT - 8, f"{end:%Y-%m-%d}", "faint", "end"))
    return frame(f"Budget of {account.principal} in this period", told, WIDTH, HEIGHT, drawn)
