"""Text of all kinds, bytea, uuid, and names of catalog objects."""

from __future__ import annotations

import re
import struct
import uuid
from typing import Any

from sqlanon.pgwire.codecs import Codec, NotOffered
from sqlanon.pgwire.codecs.numbers import exactly, integer, whole

UUID_TEXT = re.compile(r"(\{)?((?:[0-9a-f]{4}-?){7}[0-9a-f]{4})(?(1)\})", re.IGNORECASE)
ESCAPED = re.compile(rb"\\(?:\\|[0-3][0-7]{2})|[^\\]+|(.)", re.DOTALL)
SINGLE = integer(">I")


class NotUtf8(ValueError):
    """Bytes that are no text: not UTF-8, or with a zero byte."""


def utf8(data: bytes) -> str:
    if 0 in data:
        raise NotUtf8
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotUtf8 from None


def require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    if "\0" in value:
        raise ValueError
    return value


def _no_binary(value: Any) -> Any:
    raise NotOffered


def _char(text: str) -> str:
    if not text[:1].isascii():
        raise ValueError
    return text[:1]


def _read_bytea(text: str) -> bytes:
    if text.startswith("\\x"):
        pairs = re.sub("[ \t\n\r]", "", text[2:])
        if not re.fullmatch("(?:[0-9a-fA-F]{2})*", pairs):
            raise ValueError
        return bytes.fromhex(pairs)

    def plain(found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            raise ValueError
        if not found[0].startswith(b"\\"):
            return found[0]
        return b"\\" if found[0] == b"\\\\" else bytes([int(found[0][1:], 8)])

    return ESCAPED.sub(plain, text.encode())


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError
    return bytes(value)


def _read_uuid(text: str) -> uuid.UUID:
    found = UUID_TEXT.fullmatch(text)
    if not found:
        raise ValueError
    return uuid.UUID(hex=found[2].replace("-", ""))


def _uuid(value: Any) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    if isinstance(value, bytes):
        return uuid.UUID(bytes=value)
    return _read_uuid(require_text(value))


def _read_name(text: str) -> int | str:
    """A number is an object's own; everything else is its name."""
    return SINGLE.read_text(text) if re.fullmatch("[0-9]+", text) else text


def _write_name(value: Any) -> str:
    if isinstance(value, int):
        return SINGLE.write_text(value) if value else "-"
    return require_text(value)


def _name_to_binary(value: Any) -> bytes:
    if isinstance(value, str) and not re.fullmatch("[0-9]+", value):
        if value == "-":
            return bytes(4)
        raise NotOffered  # the number of the object is not known here
    return SINGLE.write_binary(int(value))


def vector(codec: Codec, element_oid: int) -> Codec:
    """int2vector and oidvector: arrays that count from 0, written without braces."""

    def from_binary(data: bytes) -> list[int]:
        dimensions, nulls, element = exactly(data[:12], ">iiI")
        if nulls or element != element_oid or dimensions not in (0, 1):
            raise ValueError
        if dimensions == 0:
            if len(data) != 12:
                raise ValueError
            return []
        count, start = exactly(data[12:20], ">ii")
        size = 4 + len(codec.write_binary(0))
        cells = [data[at : at + size] for at in range(20, len(data), size)]
        if start != 0 or count != len(cells) or any(cell[:4] != struct.pack(">i", size - 4) for cell in cells):
            raise ValueError
        return [codec.read_binary(cell[4:]) for cell in cells]

    def to_binary(value: Any) -> bytes:
        cells = [codec.write_binary(each) for each in value]
        head = struct.pack(">iiIii", 1, 0, element_oid, len(cells), 0)
        return head + b"".join(struct.pack(">i", len(cell)) + cell for cell in cells)

    return Codec(
        lambda text: [codec.read_text(str(whole(word))) for word in text.split()],
        lambda value: " ".join(codec.write_text(each) for each in value),
        from_binary,
        to_binary,
    )


TEXT = Codec(lambda text: text, require_text, utf8, lambda value: require_text(value).encode())
TEXT_ALONE = Codec(lambda text: text, require_text, _no_binary, _no_binary)
CHAR = Codec(
    _char,
    lambda value: _char(require_text(value)),
    lambda data: chr(exactly(data, ">B")[0]) if data != b"\0" else "",
    lambda value: _char(require_text(value)).encode() or b"\0",
)
BYTEA = Codec(_read_bytea, lambda value: "\\x" + _bytes(value).hex(), bytes, _bytes)
UUID = Codec(
    _read_uuid,
    lambda value: str(_uuid(value)),
    lambda data: uuid.UUID(bytes=data),
    lambda value: _uuid(value).bytes,
)
OBJECT = Codec(_read_name, _write_name, SINGLE.read_binary, _name_to_binary)
VOID = Codec(lambda text: "", lambda value: "", lambda data: "", lambda value: b"")
