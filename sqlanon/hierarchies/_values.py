"""Values that a person writes in YAML and that must equal text in a table."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema


def as_text(value: Any) -> str:
    """Text, or an integer; YAML reads `no`, `1.50` and `2024-01-01` as something that prints otherwise.

    >>> as_text(13), as_text("13")
    ('13', '13')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    kind = "nothing" if value is None else type(value).__name__
    raise ValueError(f"YAML reads one value as {kind}, not as text: put it in quotes")


def _is_number(value: Any) -> Any:
    """YAML reads `yes` as a boolean and `'5'` as text; both are more likely a slip than a number."""
    if isinstance(value, bool | str):
        raise ValueError(f"a number is needed, not {'text' if isinstance(value, str) else 'true or false'}")
    return value


def not_nested(rows: Iterable[tuple[str, ...]]) -> str | None:
    """The first label that has two different parents, or None.

    >>> not_nested([("a", "x", "*"), ("b", "x", "*")])
    >>> not_nested([("a", "x", "p", "*"), ("b", "x", "q", "*")])
    'x'
    """
    parents: dict[tuple[int, str], str] = {}
    for row in rows:
        for level in range(1, len(row) - 1):
            if parents.setdefault((level, row[level]), row[level + 1]) != row[level + 1]:
                return row[level]
    return None


Scalar = Annotated[str, BeforeValidator(as_text), WithJsonSchema({"type": ["string", "integer"]})]
Number = Annotated[Decimal, BeforeValidator(_is_number), WithJsonSchema({"type": "number"})]
Integer = Annotated[int, Field(strict=True)]
