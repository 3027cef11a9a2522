"""An answer of the gateway as a page shows it: its cells, error bars beside their numbers, and a chart."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlanon.console.plots import Bar, draw_answer
from sqlanon.errors import number
from sqlanon.report.markup import Html
from sqlanon.server.http_api import Result, plain

MOST_ROWS = 500  # on a page
MOST_BARS = 40


@dataclass(frozen=True)
class AnswerView:
    number: str
    sql: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    summary: Any
    made_up: bool

    @classmethod
    def of(cls, found: Result, sql: str, made_up: bool) -> AnswerView:
        names, kinds = zip(*found.columns, strict=True) if found.columns else ((), ())
        rows = tuple(tuple(plain(value) for value in row) for row in found.rows)
        return cls(secrets.token_hex(6), sql, tuple(names), tuple(kinds), rows, found.summary, made_up)

    @property
    def bars(self) -> dict[int, tuple[int, int]]:
        """For the places of columns with error bars: where their ends are."""
        places = {name: place for place, name in enumerate(self.columns)}
        return {
            place: (places[f"{name}_low"], places[f"{name}_high"])
            for name, place in places.items()
            if f"{name}_low" in places and f"{name}_high" in places
        }

    @property
    def shown_columns(self) -> list[int]:
        ends = {place for pair in self.bars.values() for place in pair}
        return [place for place in range(len(self.columns)) if place not in ends]

    def is_number(self, place: int) -> bool:
        return any(isinstance(row[place], int | float) and not isinstance(row[place], bool) for row in self.rows[:50])

    def cell(self, row: Sequence[Any], place: int) -> tuple[str, str]:
        """What is shown, and the error bar below it."""
        ends = self.bars.get(place)
        bar = f"{_text(row[ends[0]])} to {_text(row[ends[1]])}" if ends and row[ends[0]] is not None else ""
        return _text(row[place]), bar

    @property
    def shown_rows(self) -> Sequence[Sequence[Any]]:
        return self.rows[:MOST_ROWS]

    @property
    def chart(self) -> Html | None:
        """A bar for each row, where the answer has names and numbers with error bars."""
        shown = self.shown_columns
        labels = [place for place in shown if place not in self.bars]
        if not self.bars or len(labels) != 1 or not 1 < len(self.rows) <= MOST_BARS:
            return None
        place = next(iter(self.bars))
        low, high = self.bars[place]
        made = [
            Bar(_text(row[labels[0]]), float(row[place]), float(row[low]), float(row[high]))
            for row in self.rows
            if all(isinstance(row[each], int | float) for each in (place, low, high))
        ]
        return draw_answer(self.columns[place], made) if len(made) == len(self.rows) else None


def _text(value: Any) -> str:
    """
    >>> _text(19847), _text(3.14159), _text(None), _text("a"), _text(True)
    ('19,847', '3.142', '∅ NULL', 'a', 'true')
    """
    if value is None:
        return "∅ NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)
