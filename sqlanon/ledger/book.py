"""The book: events in their order, each bound to the one before it by a hash, and the sums that they make.

    hash = sha256(hash of the event before, as hex text + the JSON list of the fields of the event)

The first event follows the hash of the ledger's own name. Sums are made by reading the events, never kept beside them:
only what fits the chain is counted, and a reader that has come to some event needs only those after it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from sqlanon.errors import LedgerError
from sqlanon.ledger.amounts import Sums
from sqlanon.ledger.limits import format_time

NEVER_FROM_ZERO = (
    "The gateway answers nothing until the ledger is repaired. Put back the newest backup and charge by hand what "
    "was answered since, or retire this file and create a new ledger with a budget that counts what was spent."
)
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Head(NamedTuple):
    """How far a ledger has come: note it down, and a later `verify` finds whether the file was put back."""

    events: int
    hash: str


@dataclass(frozen=True)
class Event:
    """A charge, its outcome (answered, failed), or a grant."""

    id: int
    at: str
    kind: str
    principal: str
    epsilon: float = 0.0
    delta: float = 0.0
    rho: float = 0.0
    shape: str | None = None
    fingerprint: str | None = None
    policy: str | None = None
    by: str | None = None
    reason: str | None = None
    settles: int | None = None


@dataclass(frozen=True)
class Row:
    """An event as it is stored: its amounts are exact text."""

    id: int
    at: str
    kind: str
    principal: str
    epsilon: str = "0"
    delta: str = "0"
    rho: str = "0"
    shape: str | None = None
    fingerprint: str | None = None
    policy: str | None = None
    by: str | None = None
    reason: str | None = None
    settles: int | None = None

    def sealed(self, previous: str) -> tuple[Any, ...]:
        values = astuple(self)
        return (*values, link(previous, values))


NAMES = tuple(field.name for field in fields(Row))


def event(row: tuple[Any, ...]) -> Event:
    return Event(*row[:4], *(float(value) for value in row[4:7]), *row[7:13])


def genesis(ledger: str) -> str:
    return hashlib.sha256(ledger.encode()).hexdigest()


def link(previous: str, values: tuple[Any, ...]) -> str:
    return hashlib.sha256((previous + _encode(values)).encode()).hexdigest()


def integrity_error(event: int, path: object) -> LedgerError:
    return LedgerError(f"the ledger {path} is damaged: event {event} was changed or is missing", hint=NEVER_FROM_ZERO)


@lru_cache(maxsize=1024)
def _amounts(epsilon: str, delta: str, rho: str) -> Sums:
    exact = Sums(Decimal(epsilon), Decimal(delta), Decimal(rho))
    return exact._replace(in_rho=int(not exact.epsilon and bool(exact.rho)))


class Book:
    """The sums of all events up to `head`, by principal and day."""

    def __init__(self, ledger: str, path: object) -> None:
        self.ledger = ledger
        self.path = path
        self.head = Head(0, genesis(ledger))
        self._own: dict[str, dict[str, Sums]] = {}
        self._all: dict[str, Sums] = {}
        self._granted: dict[str, list[tuple[str, Sums]]] = {}
        self._unsettled: dict[int, tuple[str, str]] = {}  # charges: whose, and when
        self._failed: dict[str, list[str]] = {}  # when

    def read(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Read on: the rows that follow the head, in order. Where the chain breaks it raises, and is of no more use."""
        count, previous = self.head
        for row in rows:
            count += 1
            *values, sealed = row
            try:
                right = values[0] == count and link(previous, tuple(values)) == sealed
            except (TypeError, ValueError):  # what is no text and no number cannot be what was written
                right = False
            if not right:
                raise integrity_error(count, self.path)
            previous = sealed
            _, at, kind, principal, epsilon, delta, rho = values[:7]
            if kind == "charge":
                amounts = _amounts(epsilon, delta, rho)
                for days in (self._own.setdefault(principal, {}), self._all):
                    days[at[:10]] = days.get(at[:10], Sums()).plus(amounts)
            elif kind == "grant":
                self._granted.setdefault(principal, []).append((at, _amounts(epsilon, delta, rho)))
            self._note_outcome(values)
        self.head = Head(count, previous)

    def _note_outcome(self, values: list[Any]) -> None:
        """Which charges failed. Not those of exact answers, which fail where the controls withhold them."""
        place, at, kind, principal, epsilon, delta, _, shape = values[:8]
        if kind == "charge" and not (shape or "").startswith("exact "):
            self._unsettled[place] = principal, at
        elif kind == "grant" and not Decimal(epsilon) and not Decimal(delta):  # it was unlocked
            self._failed.pop(principal, None)
            self._unsettled = {each: whose for each, whose in self._unsettled.items() if whose[0] != principal}
        elif kind in ("answered", "failed"):
            whose = self._unsettled.pop(values[12], None)
            if whose is not None and kind == "failed":
                self._failed.setdefault(principal, []).append(whose[1])

    def failures(self, principal: str, since: datetime, before: datetime) -> int:
        """Charges since a time that failed, or that have no outcome though they were made before another time."""
        lost = [at for who, at in self._unsettled.values() if who == principal and at < format_time(before)]
        return sum(at >= format_time(since) for at in (*self._failed.get(principal, ()), *lost))

    def charged(self, principal: str | None, start: datetime | None) -> Sums:
        """The charges since the start of a period; of all principals for None.

        There is no end: a charge that lies in the future, because a clock went back, counts today.
        """
        first = "" if start is None else format_time(start)[:10]
        days = self._all if principal is None else self._own.get(principal, {})
        total = Sums()
        for day, sums in days.items():
            if day >= first:
                total = total.plus(sums)
        return total

    def granted(self, principal: str, start: datetime | None, end: datetime | None) -> Sums:
        """The grants of a period, and of no other."""
        total = Sums()
        for at, sums in self._granted.get(principal, []):
            if start is None or end is None or format_time(start) <= at < format_time(end):
                total = total.plus(sums)
        return total
