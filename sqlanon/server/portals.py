"""Prepared statements and portals of a session, and rows that are handed out in pieces."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlanon.errors import Refused
from sqlanon.pgwire import types
from sqlanon.pgwire.backend import ResultColumn, data_row
from sqlanon.server.commands import Command
from sqlanon.server.quotas import LARGE, Room, aside
from sqlanon.server.work_messages import Ask, Described, RowChunk

# As PostgreSQL spells them, for PREPARE name (types).
TYPE_NAMES = {
    "integer": "int4", "int": "int4", "bigint": "int8", "smallint": "int2", "double precision": "float8",
    "real": "float4", "boolean": "bool", "character varying": "varchar", "decimal": "numeric",
    "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz",
    "time without time zone": "time",
}  # fmt: skip


@dataclass(frozen=True)
class PreparedStatement:
    """A statement that was read and described: nothing has run, nothing is spent."""

    text: str
    command: Command | None  # None: an empty statement
    described: Described

    @property
    def weight(self) -> int:
        """Bytes of memory, about."""
        return len(self.text) + 400 * len(self.described.columns) + 16 * len(self.described.parameters)


@dataclass
class Spool:
    """The rows of an answer, kept until the client has fetched them; the answer was paid for once."""

    columns: Sequence[ResultColumn]
    formats: tuple[int, ...]
    room: Room
    chunks: list[RowChunk] = field(default_factory=list)
    _held: int = 0
    _chunk: int = 0
    _row: int = 0

    def __del__(self) -> None:
        self.room.give(self._held)

    def add(self, chunk: RowChunk) -> None:
        size = _size(chunk)
        if not self.room.take(size):
            raise Refused(
                "the answer is larger than cursors may hold", sqlstate="54000",
                hint="ask for fewer rows, close cursors, or read the answer at once: without a cursor and a fetch size",
            )  # fmt: skip
        self._held += size
        if len(chunk.ends):
            self.chunks.append(chunk)

    @property
    def done(self) -> bool:
        return self._chunk >= len(self.chunks)

    def take(self, count: int | None) -> tuple[bytes, int]:
        """The next rows, all of them if no count is given, as messages; and how many they are."""
        parts, taken = [], 0
        while not self.done and (count is None or taken < count):
            chunk = self.chunks[self._chunk]
            last = len(chunk.ends) if count is None else min(len(chunk.ends), self._row + count - taken)
            start = chunk.ends[self._row - 1] if self._row else 0
            parts.append(chunk.data[start : chunk.ends[last - 1]])
            taken += last - self._row
            self._row = last
            if last == len(chunk.ends):
                # What was fetched is not kept.
                self.chunks[self._chunk] = RowChunk(b"", chunk.ends[:0])
                self._held -= _size(chunk)
                self.room.give(_size(chunk))
                self._chunk, self._row = self._chunk + 1, 0
        return b"".join(parts), taken

    async def taken_as(self, count: int | None, formats: tuple[int, ...]) -> tuple[bytes, int]:
        """The next rows in other formats than they are kept in: FETCH may ask for binary from a cursor of text."""
        data, taken = self.take(count)
        width = len(self.columns)
        kept, wanted = spread_formats(self.formats, width), spread_formats(formats, width)
        if kept == wanted:
            return data, taken
        if len(data) <= LARGE:
            return _in_formats(data, self.columns, kept, wanted), taken
        return await aside(_in_formats, data, self.columns, kept, wanted), taken


def _in_formats(data: bytes, columns: Sequence[ResultColumn], kept: tuple[int, ...], wanted: tuple[int, ...]) -> bytes:
    made = []
    for cells in data_cells(data):
        pairs = zip(cells, columns, kept, wanted, strict=True)
        made.append(
            data_row(
                [
                    cell if cell is None or before == after
                    else types.encode(column.type, after, types.decode(column.type, before, cell))
                    for cell, column, before, after in pairs
                ]
            )
        )  # fmt: skip
    return b"".join(made)


def _size(chunk: RowChunk) -> int:
    return len(chunk.data) + chunk.ends.itemsize * len(chunk.ends)


def data_cells(data: bytes) -> list[list[bytes | None]]:
    """The cells of DataRow messages."""
    place, rows = 0, []
    while place < len(data):
        (length, width) = struct.unpack_from("!ih", data, place + 1)
        at, cells = place + 7, list[bytes | None]()
        for _ in range(width):
            (size,) = struct.unpack_from("!i", data, at)
            cells.append(None if size < 0 else data[at + 4 : at + 4 + size])
            at += 4 + max(size, 0)
        rows.append(cells)
        place += 1 + length
    return rows


@dataclass
class Portal:
    """A statement with its parameters, ready to run or running; a cursor of SQL is one too."""

    command: Command | None
    columns: tuple[ResultColumn, ...]
    formats: tuple[int, ...] = ()
    ask: Ask | None = None
    route: str = "query"
    hold: bool = False
    cursor: bool = False
    spool: Spool | None = None
    finished: bool = False
    caller: Any = None  # who asks, as it was when the portal was made
    version: int = 0  # of the policy under which its rows may be seen
    weight: int = 0  # bytes of memory, about


def spread_formats(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """One format for every column: none given is text, one given is for all.

    >>> spread_formats((), 2), spread_formats((1,), 2), spread_formats((0, 1), 2)
    ((0, 0), (1, 1), (0, 1))
    """
    if any(code not in (0, 1) for code in formats):
        raise Refused("unsupported format code", sqlstate="22023")
    if len(formats) == count:
        return tuple(formats)
    if len(formats) > 1:
        raise Refused(f"there are {len(formats)} formats for {count} columns", sqlstate="08P01")
    return tuple(formats) * count if formats else (0,) * count


def type_named(name: str) -> int:
    """The oid of a type by its name in SQL."""
    plain = name.removesuffix("[]")
    wanted = TYPE_NAMES.get(plain, plain)
    for known in types.KNOWN:
        if known.name == wanted:
            return known.array_oid if name.endswith("[]") else known.oid
    raise Refused(f'type "{name[:60]}" does not exist', sqlstate="42704")
