"""Noisy tables as text, for the cache of answers, and keys of the policy as the engines give them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlanon.errors import EngineError


def typed_key(value: Any, kind: str) -> Any:
    if kind == "timestamp" and isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, datetime.min.time())
    return value


def as_text(rows: Sequence[tuple[Any, ...]]) -> str:
    """Noisy rows as text, for the cache."""

    def tagged(value: Any) -> Any:
        if isinstance(value, datetime):
            return {"t": value.isoformat()}
        if isinstance(value, date):
            return {"d": value.isoformat()}
        if isinstance(value, Decimal):
            return {"n": str(value)}
        raise EngineError("the statement could not be answered")

    return json.dumps([list(row) for row in rows], default=tagged)


def from_text(text: str) -> list[tuple[Any, ...]]:
    def plain(value: dict[str, str]) -> Any:
        if "t" in value:
            return datetime.fromisoformat(value["t"])
        return date.fromisoformat(value["d"]) if "d" in value else Decimal(value["n"])

    return [tuple(row) for row in json.loads(text, object_hook=plain)]
