"""Rows of a result as messages, made from Arrow's columns: the work is done by column, never row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlanon.pgwire.backend import ResultColumn
from sqlanon.pgwire.codecs.cells import CELL, Bytes, Whole, inside, join_cells
from sqlanon.pgwire.codecs.cells_binary import binary_cells
from sqlanon.pgwire.codecs.cells_text import text_cells
from sqlanon.pgwire.copy_frames import CONTROLS, CopyFormat, single_byte
from sqlanon.pgwire.frontend import ProtocolError, each_format

SLICE = 2**16  # rows at a time, so that what is in between stays small
LONGEST = 2**30  # bytes of a row, as in PostgreSQL
Piece = tuple[Whole, Bytes]  # where messages begin and end, and their bytes


@dataclass(frozen=True)
class Encoded:
    """Messages one after the other; `ends` tells where each row's ends, as an offset into `data`."""

    data: bytes
    ends: npt.NDArray[np.int64]


def data_rows(batch: pa.RecordBatch, columns: Sequence[ResultColumn], formats: Sequence[int] = ()) -> Encoded:
    """DataRow messages of all rows."""
    wanted = each_format(tuple(formats), len(columns))

    def rows(piece: pa.RecordBatch) -> Piece:
        cells = [_cells(*each) for each in zip(piece.columns, columns, wanted, strict=True)]
        return _sized(piece.num_rows, b"D", cells)

    return _slices(batch, columns, rows)


def copy_rows(
    batch: pa.RecordBatch,
    columns: Sequence[ResultColumn],
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
        return _slices(
            batch,
            columns,
            lambda piece: _sized(
                piece.num_rows, b"d", [_cells(*each, 1) for each in zip(piece.columns, columns, strict=True)]
            ),
        )
    write, mark = _written(format, delimiter, null, quote, escape, alone=len(columns) == 1)

    def lines(piece: pa.RecordBatch) -> Piece:
        cells = [
            write(_cells(array, column, 0), column.name in force_quote)
            for array, column in zip(piece.columns, columns, strict=True)
        ]
        line = join_cells(*cells, between=mark) if cells else pa.array([b""] * piece.num_rows, CELL)
        return _open(join_cells(b"d" + bytes(4), line, b"\n"))[:2]

    return _slices(batch, columns, lines)


def _cells(array: pa.Array, column: ResultColumn, form: int) -> pa.Array:
    try:
        return binary_cells(array, column.type) if form else text_cells(array, column.type)
    except pa.ArrowException:  # whose text may hold values
        raise ProtocolError("42804", f"a value cannot be written as type {column.type.name}") from None


def _slices(
    batch: pa.RecordBatch, columns: Sequence[ResultColumn], messages: Callable[[pa.RecordBatch], Piece]
) -> Encoded:
    if batch.num_columns != len(columns):
        raise ValueError("a batch has other columns than its description")
    pieces: list[Bytes] = []
    ends = [np.empty(0, np.int64)]
    total = 0
    for start in range(0, batch.num_rows, SLICE):
        places, data = messages(batch.slice(start, SLICE))
        pieces.append(data)
        ends.append(places[1:] + total)
        total += len(data)
    return Encoded(b"".join(pieces), np.concatenate(ends))  # type: ignore[arg-type]


def _sized(count: int, kind: bytes, cells: Sequence[pa.Array]) -> Piece:
    """Messages of rows: letter, length, number of cells, and each cell after its own length."""
    head = kind + bytes(4) + len(cells).to_bytes(2, "big")
    # The lengths are written afterwards, into the gaps: Arrow is fast at joining few parts, not many.
    starts, data, numbers = _open(
        join_cells(head, *cells, between=bytes(4)) if cells else pa.array([head] * count, CELL)
    )
    place = starts[:-1] + len(head)
    for cell in cells:
        size = np.asarray(pc.binary_length(cell).fill_null(-1))
        numbers[place] = size
        place += 4 + np.maximum(size, 0)
    return starts, data


def _open(messages: pa.Array) -> tuple[Whole, Bytes, npt.NDArray[Any]]:
    """Messages with their lengths filled in, and their bytes as numbers of 32 bits that begin at any byte."""
    starts, data = inside(messages)
    size = np.diff(starts)
    if size.max() > LONGEST:
        raise ProtocolError("54000", "a row is longer than 1 GB")
    data = data.copy()
    numbers = np.ndarray((len(data) - 3,), ">i4", buffer=data, strides=(1,))
    numbers[starts[:-1] + 1] = size - 1
    return starts, data, numbers


def _written(
    format: CopyFormat, delimiter: str | None, null: str | None, quote: str, escape: str | None, *, alone: bool
) -> tuple[Callable[[pa.Array, bool], pa.Array], bytes]:
    """How cells are written in a line, and what stands between them."""
    mark = single_byte("delimiter", delimiter if delimiter is not None else "," if format == "csv" else "\t")
    nothing = (null if null is not None else "" if format == "csv" else "\\N").encode()
    if format == "csv":
        around = single_byte("quote", quote)
        before = single_byte("escape", quote if escape is None else escape)
        return lambda cells, force: _csv(cells, mark, around, before, nothing, alone, force), mark
    return lambda cells, force: _escaped(cells, mark).fill_null(nothing), mark


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
        cells = pc.if_else(needs, join_cells(quote, escaped, quote), cells)
    return cells.fill_null(nothing)
