"""Tables and amounts as text, side by side as psql has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlanon.errors import number

if TYPE_CHECKING:
    from sqlanon.ledger.limits import Left
    from sqlanon.mechanisms import Cost


def format_table(names: Sequence[str], rows: Sequence[Sequence[tuple[str, bool]]]) -> str:
    """Columns side by side as psql has them; a cell is its text, and whether it is a number."""
    heads = [printable(name) for name in names]
    widths = [max(text_width(head), *(text_width(row[at][0]) for row in rows), 1) for at, head in enumerate(heads)]
    made = [" | ".join(_centred(head, width) for head, width in zip(heads, widths, strict=True))]
    made.append("-+-".join("-" * width for width in widths))
    for row in rows:
        made.append(" | ".join(_padded(*cell, width) for cell, width in zip(row, widths, strict=True)))
    made = [f" {line}".rstrip() if at != 1 else f"-{line}-" for at, line in enumerate(made)]
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    return "\n".join([*made, f"({count})"]) + "\n"


def _centred(text: str, width: int) -> str:
    room = width - text_width(text)
    return " " * (room // 2) + text + " " * (room - room // 2)


def _padded(text: str, right: bool, width: int) -> str:
    room = " " * (width - text_width(text))
    return room + text if right else text + room


def text_width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def printable(text: str, tab: str = "\\t") -> str:
    """Text without signs that a terminal would obey.

    >>> printable("a\\x1b[31mb\\nc")
    'a\\\\x1b[31mb\\\\nc'
    """
    if text.isprintable():
        return text
    spelled = {"\n": "\\n", "\r": "\\r", "\t": tab}
    return "".join(
        sign if sign.isprintable() else spelled.get(sign) or sign.encode("unicode_escape").decode() for sign in text
    )


def left_text(left: Left, principal: str) -> str:
    until = f"renewed on {left.renewal:%Y-%m-%d}" if left.renewal else "not renewed"
    return f"{principal} has {format_cost(left.left)} left, {until}"


def format_cost(cost: Cost) -> str:
    return f"epsilon {number(cost.epsilon)}" + (f" and delta {cost.delta:.2g}" if cost.delta else "")
