"""Arrays: read with one dimension, written with any number of them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

from sqlanon.proxy.codecs import Codec, NotOffered
from sqlanon.proxy.codecs.numbers import SPACE, exactly

# Nothing is tried twice (possessive repeats), so that no text takes long to refuse.
QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
BARE = r'((?:[^"{},\\]++|\\.)++)'
ELEMENT = re.compile(rf"[{SPACE}]*+(?:{QUOTED}[{SPACE}]*+|{BARE})([,}}])", re.DOTALL)
NEEDS_QUOTES = re.compile(rf'["\\{{}},{SPACE}]')
MOST_DIMENSIONS = 6


def quoted(text: str) -> str:
    """
    >>> quoted("a"), quoted(""), quoted("null"), quoted('say "x"')
    ('a', '""', '"null"', '"say \\\\"x\\\\""')
    """
    if text and text.upper() != "NULL" and not NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _elements(text: str) -> Iterator[str | None]:
    body = text.strip(SPACE)
    if body.startswith("["):
        raise NotOffered
    if not body.startswith("{"):
        raise ValueError
    if not body[1:].strip(SPACE + "}") and body.count("}") == 1:
        return
    if body[1:].lstrip(SPACE).startswith("{"):
        raise NotOffered
    at, end = 1, ","
    while end == ",":
        found = ELEMENT.match(body, at)
        if not found:
            raise ValueError
        at, end = found.end(), found[3]
        if found[1] is not None:
            yield _unescaped(found[1])
        else:
            bare = _trimmed(found[2])
            if not bare:
                raise ValueError
            yield None if bare.upper() == "NULL" else _unescaped(bare)
    if at != len(body):
        raise ValueError


def _trimmed(bare: str) -> str:
    """Without the blanks at its end, but an escaped one stays."""
    short = bare.rstrip(SPACE)
    escapes = len(short) - len(short.rstrip("\\"))
    return bare[: len(short) + 1] if escapes % 2 else short


def _shape(value: Any) -> list[int]:
    """The lengths of nested lists; PostgreSQL's arrays are boxes."""
    if not isinstance(value, list | tuple):
        raise TypeError
    nested = [isinstance(each, list) for each in value]
    if not any(nested):
        return [len(value)]
    shapes = [_shape(each) if inside else None for each, inside in zip(value, nested, strict=True)]
    if any(each != shapes[0] for each in shapes) or shapes[0] is None or len(shapes[0]) >= MOST_DIMENSIONS:
        raise ValueError
    return [] if 0 in shapes[0] else [len(value), *shapes[0]]


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    for each in value:
        if depth > 1:
            yield from _leaves(each, depth - 1)
        else:
            yield each


def array(codec: Codec, element_oid: int) -> Codec:
    """The codec of arrays of a type."""

    def written(value: Any, depth: int) -> str:
        if depth > 1:
            return "{" + ",".join(written(each, depth - 1) for each in value) + "}"
        return "{" + ",".join("NULL" if each is None else quoted(codec.write_text(each)) for each in value) + "}"

    def to_text(value: Any) -> str:
        shape = _shape(value)
        return written(value, len(shape)) if shape else "{}"

    def from_binary(data: bytes) -> list[Any]:
        dimensions, nulls, element = exactly(data[:12], ">iiI")
        if dimensions > 1:
            raise NotOffered
        if dimensions < 0 or nulls not in (0, 1) or element != element_oid or (dimensions == 0 and len(data) != 12):
            raise ValueError
        count = exactly(data[12:20], ">ii")[0] if dimensions else 0
        if not 0 <= count <= (len(data) - 20) // 4 and dimensions:
            raise ValueError
        values: list[Any] = []
        at = 20
        for _ in range(count):
            (size,) = exactly(data[at : at + 4], ">i")
            at += 4
            if size < -1 or size > len(data) - at:
                raise ValueError
            values.append(None if size == -1 else codec.read_binary(data[at : at + size]))
            at += max(size, 0)
        if dimensions and at != len(data):
            raise ValueError
        return values

    def to_binary(value: Any) -> bytes:
        shape = _shape(value)
        if 0 in shape or not shape:
            return struct.pack(">iiI", 0, 0, element_oid)
        leaves = list(_leaves(value, len(shape)))
        head = struct.pack(">iiI", len(shape), any(leaf is None for leaf in leaves), element_oid)
        sizes = b"".join(struct.pack(">ii", each, 1) for each in shape)
        cells = [None if leaf is None else codec.write_binary(leaf) for leaf in leaves]
        body = b"".join(b"\xff" * 4 if cell is None else struct.pack(">i", len(cell)) + cell for cell in cells)
        return head + sizes + body

    def read(text: str) -> list[Any]:
        return [None if each is None else codec.read_text(each) for each in _elements(text)]

    # A list that is no array is malformed, an element that is none of its type has the type's own code.
    return Codec(read, to_text, from_binary, to_binary, codec.malformed, codec.out_of_range)
