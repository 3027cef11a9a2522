"""What the server keeps for its clients and does for them by itself: bounded, and nobody waits for another's.

The server is one thread. Values that take long to read are read aside, one after the other, and what a session keeps
(statements, parameters, rows that wait to be fetched) has a limit for the session and one for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlanon.errors import Refused
from sqlanon.pgwire import types

T = TypeVar("T")
SHARE = 4  # of all sessions together: so many times what one may keep
LARGE = 2**14  # bytes: more is read aside
LONGEST = 2**20  # bytes of values that are more than a copy: arrays, numbers, times
COPIED = frozenset(
    each.oid for each in (types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.CHAR, types.UNKNOWN, types.BYTEA)
)
BLOWN_UP = 20  # an array of numbers takes so much more memory than its text
# One thread: the others' share of the processor is at least a half, however many ask.
_ASIDE = ThreadPoolExecutor(1, "aside")


class Room:
    """So many bytes may be held at a time; what is taken from a part is taken from the whole too."""

    def __init__(self, limit: Callable[[], int], whole: Room | None = None) -> None:
        self._limit, self._whole = limit, whole
        self.held = 0

    def take(self, size: int) -> bool:
        """Whether there was room."""
        if self.held + size > self._limit() or (self._whole is not None and not self._whole.take(size)):
            return False
        self.held += size
        return True

    def give(self, size: int) -> None:
        self.held -= size
        if self._whole is not None:
            self._whole.give(size)


async def aside(work: Callable[..., T], *given: Any) -> T:
    """Work that takes long, where it holds up nobody else."""
    return await asyncio.get_running_loop().run_in_executor(_ASIDE, work, *given)


def weight(oids: Sequence[int], values: Sequence[bytes | None]) -> int:
    """Bytes of memory that values take, about."""
    sizes = (
        (1 if oid in COPIED else BLOWN_UP) * len(value)
        for oid, value in zip(oids, values, strict=True)
        if value is not None
    )
    return 16 * len(values) + sum(sizes)


async def decode_parameters(
    oids: Sequence[int], formats: Sequence[int], values: Sequence[bytes | None]
) -> tuple[Any, ...]:
    """Values of parameters, each read as its type."""
    sizes = [len(value) for oid, value in zip(oids, values, strict=True) if value is not None and oid not in COPIED]
    if sum(sizes) > LONGEST:
        raise Refused(f"parameters other than texts have at most {LONGEST} bytes", sqlstate="54000")

    def read() -> tuple[Any, ...]:
        given = zip(oids, formats, values, strict=True)
        return tuple(types.decode(types.by_oid(oid), form, value) for oid, form, value in given)

    small = len(values) <= 1000 and sum(len(value) for value in values if value is not None) <= LARGE
    return read() if small else await aside(read)
