"""The messages that the server sends, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlanon.pgwire.frontend import each_format
from sqlanon.pgwire.types import PgType

SSL_YES, SSL_NO = b"S", b"N"


@dataclass(frozen=True)
class ResultColumn:
    """One column of a result, as a client is told of it."""

    name: str
    type: PgType
    typmod: int = -1
    table: int = 0
    attribute: int = 0


def message(kind: bytes, body: bytes = b"") -> bytes:
    """
    >>> message(b"Z", b"I")
    b'Z\\x00\\x00\\x00\\x05I'
    """
    return kind + struct.pack(">I", len(body) + 4) + body


def _text(text: str) -> bytes:
    # A NUL would end the field early, and what follows would be read as other fields.
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace") + b"\0"


def authentication_ok() -> bytes:
    return message(b"R", struct.pack(">I", 0))


def authentication_cleartext() -> bytes:
    return message(b"R", struct.pack(">I", 3))


def authentication_sasl(mechanisms: Sequence[str] = ("SCRAM-SHA-256",)) -> bytes:
    return message(b"R", struct.pack(">I", 10) + b"".join(map(_text, mechanisms)) + b"\0")


def authentication_sasl_continue(data: bytes) -> bytes:
    return message(b"R", struct.pack(">I", 11) + data)


def authentication_sasl_final(data: bytes) -> bytes:
    return message(b"R", struct.pack(">I", 12) + data)


def negotiate_protocol_version(minor: int, unknown: Sequence[str]) -> bytes:
    """The newest minor version that is spoken, and the protocol options that are not known."""
    return message(b"v", struct.pack(">II", minor, len(unknown)) + b"".join(map(_text, unknown)))


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", _text(name) + _text(value))


def backend_key_data(process: int, secret: bytes) -> bytes:
    return message(b"K", struct.pack(">I", process) + secret)


def ready_for_query(status: bytes) -> bytes:
    """`status` is I (idle), T (in a transaction) or E (in a failed one)."""
    if status not in (b"I", b"T", b"E"):
        raise ValueError("no such transaction status")
    return message(b"Z", status)


def row_description(columns: Sequence[ResultColumn], formats: Sequence[int] = ()) -> bytes:
    """No formats: all text; one: all that; else one for each column."""
    parts = [struct.pack(">H", len(columns))]
    for column, form in zip(columns, each_format(tuple(formats), len(columns)), strict=True):
        parts += [
            _text(column.name),
            struct.pack(
                ">IhIhih", column.table, column.attribute, column.type.oid, column.type.size, column.typmod, form
            ),
        ]
    return message(b"T", b"".join(parts))


def data_row(cells: Sequence[bytes | None]) -> bytes:
    """
    >>> data_row([b"ab", None])
    b'D\\x00\\x00\\x00\\x10\\x00\\x02\\x00\\x00\\x00\\x02ab\\xff\\xff\\xff\\xff'
    """
    parts = [b"\xff\xff\xff\xff" if cell is None else struct.pack(">I", len(cell)) + cell for cell in cells]
    return message(b"D", struct.pack(">H", len(cells)) + b"".join(parts))


def command_complete(tag: str) -> bytes:
    return message(b"C", _text(tag))


def error_response(
    severity: str,
    sqlstate: str,
    message: str,
    detail: str | None = None,
    hint: str | None = None,
    position: int | None = None,
) -> bytes:
    """`severity` is ERROR, FATAL or PANIC; `position` counts the characters of the statement from 1."""
    return _fields(b"E", severity, sqlstate, message, detail, hint, position)


def notice_response(
    severity: str,
    sqlstate: str,
    message: str,
    detail: str | None = None,
    hint: str | None = None,
    position: int | None = None,
) -> bytes:
    """`severity` is WARNING, NOTICE, DEBUG, INFO or LOG."""
    return _fields(b"N", severity, sqlstate, message, detail, hint, position)


def _fields(
    kind: bytes,
    severity: str,
    sqlstate: str,
    text: str,
    detail: str | None,
    hint: str | None,
    position: int | None,
) -> bytes:
    if len(sqlstate) != 5:
        raise ValueError("a SQLSTATE has five characters")
    fields = {b"S": severity, b"V": severity, b"C": sqlstate, b"M": text, b"D": detail, b"H": hint}
    fields[b"P"] = None if position is None else str(position)
    return message(kind, b"".join(code + _text(value) for code, value in fields.items() if value is not None) + b"\0")


def parse_complete() -> bytes:
    return message(b"1")


def bind_complete() -> bytes:
    return message(b"2")


def close_complete() -> bytes:
    return message(b"3")


def no_data() -> bytes:
    return message(b"n")


def portal_suspended() -> bytes:
    return message(b"s")


def empty_query() -> bytes:
    return message(b"I")


def parameter_description(oids: Iterable[int]) -> bytes:
    found = tuple(oids)
    return message(b"t", struct.pack(f">H{len(found)}I", len(found), *found))


def copy_out_response(form: int, columns: int) -> bytes:
    """`form` is 0 for text and csv, 1 for binary; `columns` is their number."""
    return message(b"H", struct.pack(f">bH{columns}h", form, columns, *[form] * columns))


def copy_data(data: bytes) -> bytes:
    return message(b"d", data)


def copy_done() -> bytes:
    return message(b"c")
