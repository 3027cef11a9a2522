"""How many rows are in classes of which size: before on the left, after on the right, sizes in the middle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlanon.report.markup import Html
from sqlanon.report.plots.svg import bar, frame, length, line, words
from sqlanon.report.wording import compact, count, plural

WIDTH, ROW, TOP = 360.0, 22.0, 30.0
MIDDLE, VALUE = 86.0, 46.0  # room for the sizes and for the number at the end of a bar
ROOM = (WIDTH - MIDDLE) / 2 - VALUE


@dataclass(frozen=True)
class SizeBand:
    """Rows in classes of so many records, and whether all such classes are smaller than required."""

    smallest: int
    largest: int
    before: tuple[int, int] | None  # rows, classes
    after: tuple[int, int] | None
    too_small: bool

    @property
    def name(self) -> str:
        return _range(self.smallest, self.largest, count)

    @property
    def label(self) -> str:
        """
        >>> SizeBand(8, 15, None, None, False).label, SizeBand(2**20, 2**21 - 1, None, None, False).label
        ('8–15', '1M–2.1M')
        """
        return self.name if self.largest < 10_000 else _range(self.smallest, self.largest, lambda n: compact(n, 2))


def _range(smallest: int, largest: int, shown: Callable[[int], str]) -> str:
    return shown(smallest) if smallest == largest else f"{shown(smallest)}–{shown(largest)}"


def _side(row: SizeBand, y: float, top: int, *, after: bool) -> list[Html]:
    found = row.after if after else row.before
    if found is None:
        return []
    rows, classes = found
    size = length(rows, top, ROOM)
    edge = (WIDTH + MIDDLE) / 2 if after else (WIDTH - MIDDLE) / 2
    when = "after" if after else "before"
    hint = f"{when}: {plural(rows, 'row')} in {count(classes)} classes of {row.name}"
    shown = compact(rows) if rows >= 10_000 else count(rows)
    class_ = "value" if rows else "value faint"
    if after:
        return [
            bar(edge, y + 3, size, ROW - 6, "after", hint),
            words(edge + size + 5, y + 15, shown, class_, title=hint),
        ]
    return [
        bar(edge - size, y + 3, size, ROW - 6, "before", hint),
        words(edge - size - 5, y + 15, shown, class_, "end", title=hint),
    ]


def pyramid(rows: Sequence[SizeBand], required: str | None) -> Html:
    """Mirrored bars, one pair for each range of class sizes; ranges that are too small stand on a warning ground."""
    top = max((side[0] for row in rows for side in (row.before, row.after) if side), default=0)
    height = TOP + ROW * len(rows) + 6
    drawn: list[Html] = []
    for place, row in enumerate(rows):
        y = TOP + ROW * place
        if row.too_small:
            drawn.append(bar(0, y, WIDTH, ROW, "danger-ground"))
        drawn.append(
            words(WIDTH / 2, y + 15, row.label, "", "middle", title=row.name if row.name != row.label else None)
        )
        drawn += _side(row, y, top, after=False) + _side(row, y, top, after=True)
    small = sum(row.too_small for row in rows)
    if small and required and small < len(rows):
        drawn.append(line(0, TOP + ROW * small, WIDTH, TOP + ROW * small, "limit"))
    heads = [words(WIDTH / 2, 15, "class size", "faint", "middle")]
    if any(row.before for row in rows):
        heads.append(words((WIDTH - MIDDLE) / 2, 15, "rows before", "head before", "end"))
    if any(row.after for row in rows):
        heads.append(words((WIDTH + MIDDLE) / 2, 15, "rows after", "head after"))
    return frame("Class sizes", _described(rows), WIDTH, height, heads, drawn)


def _described(rows: Sequence[SizeBand]) -> str:
    """
    >>> _described([SizeBand(1, 1, (10, 10), (0, 0), True), SizeBand(2, 3, (4, 2), (14, 5), True)])
    'Rows by size of their class. Before: 1: 10, 2–3: 4. After: 1: 0, 2–3: 14.'
    """
    parts = ["Rows by size of their class."]
    for name in ("before", "after"):
        told = [f"{row.name}: {count(getattr(row, name)[0])}" for row in rows if getattr(row, name)]
        if told:
            parts.append(f"{name.capitalize()}: {', '.join(told)}.")
    return " ".join(parts)
