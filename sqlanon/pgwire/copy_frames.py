"""What COPY sends before and after its rows. The server sends it; the rows come from a worker (`pgwire.rows`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlanon.pgwire import backend
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.pgwire.frontend import ProtocolError

CONTROLS = {b"\\": b"\\\\", b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\v": b"\\v"}
CopyFormat = Literal["text", "csv", "binary"]


def copy_begin(
    columns: Sequence[ResultColumn],
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
    names = [column.name.encode() for column in columns]
    mark = single_byte("delimiter", delimiter if delimiter is not None else "," if format == "csv" else "\t")
    if format == "csv":
        around, before = single_byte("quote", quote), single_byte("escape", quote if escape is None else escape)
        nothing = {(null or "").encode(), *([b"\\."] if len(names) == 1 else [])}  # the latter would end the data
        written = [_csv_name(name, mark, around, before, name in nothing) for name in names]
    else:
        written = [_escaped_name(name, mark) for name in names]
    return backend.copy_data(mark.join(written) + b"\n")


def copy_end(format: CopyFormat) -> bytes:
    """What comes after the rows, before CopyDone."""
    return backend.copy_data(b"\xff\xff") if format == "binary" else b""


def single_byte(name: str, text: str) -> bytes:
    """The byte that an option of COPY names."""
    data = text.encode()
    if len(data) != 1 or data in b"\r\n\0":
        raise ProtocolError("22023", f"COPY {name} must be a single one-byte character")
    return data


def _escaped_name(name: bytes, mark: bytes) -> bytes:
    for plain, escaped in (CONTROLS if mark in CONTROLS else {**CONTROLS, mark: b"\\" + mark}).items():
        name = name.replace(plain, escaped)  # the backslash comes first
    return name


def _csv_name(name: bytes, mark: bytes, quote: bytes, escape: bytes, must: bool) -> bytes:
    if not must and not any(each in name for each in (mark, quote, b"\n", b"\r")):
        return name
    if escape != quote:
        name = name.replace(escape, escape + escape)
    return quote + name.replace(quote, escape + quote) + quote
