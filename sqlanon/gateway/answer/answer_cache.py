"""What is kept: noisy tables as text, for the cache of answers; keys of the policy; statements that were bound."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

from sqlanon.errors import EngineError

T = TypeVar("T")
SIMPLE = (str, int, float, bool, date, datetime, type(None))


def values_key(values: Any) -> tuple[Hashable, ...] | None:
    """What tells lists of simple values apart; None of others. As text: 0, -0.0 and False are equal."""
    if not isinstance(values, list | tuple) or any(type(value) not in SIMPLE for value in values):
        return None
    return tuple((type(value), value if type(value) is int else repr(value)) for value in values)


class LRU(Generic[T]):
    """The last so many values, by key."""

    def __init__(self, most: int = 128) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: Hashable, value: T) -> None:
        with self._lock:
            self._held[key] = value
            if len(self._held) > self._most:
                self._held.popitem(last=False)


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
