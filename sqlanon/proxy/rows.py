"""Rows of a result as messages, made from Arrow's columns: the work is done by column, never row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlanon.proxy import backend
from sqlanon.proxy.backend import Column
from sqlanon.proxy.codecs.cells import CELL, fixed, inside, joined, sizes
from sqlanon.proxy.codecs.cells_binary import binary_cells
from sqlanon.proxy.codecs.cells_text import text_cells
from sqlanon.proxy.wire import ProtocolError, each_format

SLICE = 2**16  # rows at a time, so that what is in between stays small
LONGEST = 2**30  # bytes of a row, as in PostgreSQL
CONTROLS = {b"\\": b"\\\\", b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\v": b"\\v"}
CopyFormat = Literal["text", "csv", "binary"]


@dataclass(frozen=True)
class Encoded:
    """Messages one after the other; `ends` tells where each row's ends, as an offset into `data`."""

    data: bytes
    ends: npt.NDArray[np.int64]


def data_rows(batch: pa.RecordBatch, columns: Sequence[Column], formats: Sequence[int] = ()) -> Encoded:
    """DataRow messages of all rows."""
    wanted = each_format(tuple(formats), len(columns))

    def parts(piece: pa.RecordBatch) -> list[pa.Array | bytes]:
        made: list[pa.Array | bytes] = []
        for array, column, form in zip(piece.columns, columns, wanted, strict=True):
            cells = _cells(array, column, form)
            made += [sizes(cells), cells]
        return made

    return _messages(batch, columns, b"D", np.array([len(columns)], ">i2").tobytes(), parts)


def copy_rows(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    format: CopyFormat,
    *,
    delimiter: str | None = None,
    null: str | None = None,
    quote: str = '"',
    escape: str | None = None,
    force_quote: Collection[str] = (),
) -> Encoded:
    """CopyData messages, one a row. `force_quote` names columns; the other options are those of COPY."""
    if format == "binary":

        def binary(piece: pa.RecordBatch) -> list[pa.Array | bytes]:
            made: list[pa.Array | bytes] = []
            for array, column in zip(piece.columns, columns, strict=True):
                cells = _cells(array, column, 1)
                made += [sizes(cells), cells]
            return made

        return _messages(batch, columns, b"d", np.array([len(columns)], ">i2").tobytes(), binary)
    write, mark = _written(format, delimiter, null, quote, escape, alone=len(columns) == 1)

    def text(piece: pa.RecordBatch) -> list[pa.Array | bytes]:
        made: list[pa.Array | bytes] = []
        for array, column in zip(piece.columns, columns, strict=True):
            made += [write(_cells(array, column, 0), column.name in force_quote), mark]
        return [*made[:-1], b"\n"]

    return _messages(batch, columns, b"d", b"", text)


def copy_begin(
    columns: Sequence[Column],
    format: CopyFormat,
    *,
    header: bool = False,
    delimiter: str | None = None,
    null: str | None = None,
    quote: str = '"',
    escape: str | None = None,
) -> bytes:
    """What comes before the rows: the line of names if it is asked for, or the signature of the binary format."""
    if format == "binary":
        return backend.copy_data(b"PGCOPY\n\xff\r\n\0" + bytes(8))
    if not header:
        return b""
    write, mark = _written(format, delimiter, null, quote, escape, alone=len(columns) == 1)
    names = write(pa.array([column.name.encode() for column in columns], CELL), False)
    return backend.copy_data(mark.join(names.to_pylist()) + b"\n")


def copy_end(format: CopyFormat) -> bytes:
    """What comes after the rows, before CopyDone."""
    return backend.copy_data(b"\xff\xff") if format == "binary" else b""


def _cells(array: pa.Array, column: Column, form: int) -> pa.Array:
    try:
        return binary_cells(array, column.type) if form else text_cells(array, column.type)
    except pa.ArrowException:  # whose text may hold values
        raise ProtocolError("42804", f"a value cannot be written as type {column.type.name}") from None


def _messages(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    kind: bytes,
    begin: bytes,
    parts: Callable[[pa.RecordBatch], list[pa.Array | bytes]],
) -> Encoded:
    """One message a row: its letter, its length, `begin`, and the parts side by side."""
    if batch.num_columns != len(columns):
        raise ValueError("a batch has other columns than its description")
    pieces: list[Any] = []
    ends = [np.empty(0, np.int64)]
    total = 0
    for start in range(0, batch.num_rows, SLICE):
        piece = batch.slice(start, SLICE)
        row = parts(piece)
        size = np.full(piece.num_rows, 4 + len(begin), np.int64)
        for part in row:
            size += len(part) if isinstance(part, bytes) else np.asarray(pc.binary_length(part).fill_null(0))
        if size.max() > LONGEST:
            raise ProtocolError("54000", "a row is longer than 1 GB")
        head = np.empty((piece.num_rows, 5 + len(begin)), np.uint8)
        head[:, 0] = kind[0]
        head[:, 1:5] = size.astype(">u4").view(np.uint8).reshape(-1, 4)
        head[:, 5:] = np.frombuffer(begin, np.uint8)
        places, data = inside(joined(fixed(pa.array(size), head), *row))
        pieces.append(data)
        ends.append(places[1:] + total)
        total += len(data)
    return Encoded(b"".join(pieces), np.concatenate(ends))


def _written(
    format: CopyFormat, delimiter: str | None, null: str | None, quote: str, escape: str | None, *, alone: bool
) -> tuple[Callable[[pa.Array, bool], pa.Array], bytes]:
    """How cells are written in a line, and what stands between them."""
    mark = _single("delimiter", delimiter if delimiter is not None else "," if format == "csv" else "\t")
    nothing = (null if null is not None else "" if format == "csv" else "\\N").encode()
    if format == "csv":
        around = _single("quote", quote)
        before = _single("escape", quote if escape is None else escape)
        return lambda cells, force: _csv(cells, mark, around, before, nothing, alone, force), mark
    return lambda cells, force: _escaped(cells, mark).fill_null(nothing), mark


def _single(name: str, text: str) -> bytes:
    data = text.encode()
    if len(data) != 1 or data in b"\r\n\0":
        raise ProtocolError("22023", f"COPY {name} must be a single one-byte character")
    return data


def _class(*marks: bytes) -> str:
    """A regular expression for any of these bytes."""
    return "[" + "".join(f"\\x{mark[0]:02x}" for mark in marks) + "]"


def _any(cells: pa.Array, pattern: str) -> tuple[pa.Array, bool]:
    found = pc.match_substring_regex(cells, pattern).fill_null(False)
    return found, bool(pc.any(found).as_py())


def _escaped(cells: pa.Array, mark: bytes) -> pa.Array:
    replaced = CONTROLS if mark in CONTROLS else {**CONTROLS, mark: b"\\" + mark}
    if not _any(cells, _class(*replaced))[1]:
        return cells
    for plain, escaped in replaced.items():  # the backslash comes first
        cells = pc.replace_substring(cells, plain, escaped)
    return cells


def _csv(
    cells: pa.Array, mark: bytes, quote: bytes, escape: bytes, nothing: bytes, alone: bool, force: bool
) -> pa.Array:
    needs, _ = _any(cells, _class(mark, quote, b"\n", b"\r"))
    like_null = pc.equal(cells, pa.scalar(nothing, CELL)).fill_null(False)
    if alone:  # a line that would end the data
        like_null = pc.or_(like_null, pc.equal(cells, pa.scalar(b"\\.", CELL)).fill_null(False))
    needs = pc.or_(needs, like_null)
    if force:
        needs = cells.is_valid()
    if pc.any(needs).as_py():
        escaped = cells if escape == quote else pc.replace_substring(cells, escape, escape + escape)
        escaped = pc.replace_substring(escaped, quote, escape + quote)
        cells = pc.if_else(needs, joined(quote, escaped, quote), cells)
    return cells.fill_null(nothing)
