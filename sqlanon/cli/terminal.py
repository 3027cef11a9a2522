"""What commands print with. rich loads when something is printed, so that --help and --json start fast."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def open_console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def plain_text(content: str, style: str = "") -> Text:
    """Text that is printed as it is: what looks like markup in it has no meaning."""
    from rich.text import Text

    return Text(content, style=style)


def join_texts(*parts: str | tuple[str, str]) -> Text:
    """Texts one after the other, each with its style."""
    from rich.text import Text

    return Text.assemble(*parts)


def make_table(title: str | None = None) -> Table:
    from rich.table import Table

    return Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")


def escape_markup(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def replace_infinities(value: Any) -> Any:
    """A value that JSON can hold: it has no infinities, so they become text.

    >>> replace_infinities({"loss": float("inf"), "rows": (1, 2)})
    {'loss': 'inf', 'rows': [1, 2]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): replace_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_infinities(item) for item in value]
    return value
