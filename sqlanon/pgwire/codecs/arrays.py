"""Arrays of up to six dimensions: lists, or lists of lists that are all equally long."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Any

from sqlanon.pgwire.codecs import Codec, NotOffered
from sqlanon.pgwire.codecs.numbers import SPACE, exactly

# Nothing is tried twice (possessive repeats), so that no text takes long to refuse.
QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
BARE = r'((?:[^"{},\\]++|\\.)++)'
ELEMENT = re.compile(rf"[{SPACE}]*+(?:{QUOTED}[{SPACE}]*+|{BARE})(?P<end>[,}}])", re.DOTALL)
BRACE = re.compile(rf"[{SPACE}]*+{{")
END = re.compile(rf"[{SPACE}]*+(?P<end>[,}}])")
NEEDS_QUOTES = re.compile(rf'["\\{{}},{SPACE}]')
MOST_DIMENSIONS = 6


def quote_element(text: str) -> str:
    """
    >>> quote_element("a"), quote_element(""), quote_element("null"), quote_element('say "x"')
    ('a', '""', '"null"', '"say \\\\"x\\\\""')
    """
    if text and text.upper() != "NULL" and not NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _elements(text: str) -> list[Any]:
    """The texts of the elements, None for NULL; in lists of lists if there are more dimensions."""
    body = text.strip(SPACE)
    if body.startswith("["):
        raise NotOffered
    if not body.startswith("{"):
        raise ValueError
    if not body[1:].strip(SPACE + "}") and body.count("}") == 1:
        return []
    found, at = _level(body, 1, 1)
    if at != len(body):
        raise ValueError
    _shape(found)
    return found


def _level(body: str, at: int, depth: int) -> tuple[list[Any], int]:
    """What stands between a brace and its end, and the place after it."""
    items: list[Any] = []
    nested, end = BRACE.match(body, at) is not None, ","
    if depth > MOST_DIMENSIONS:
        raise ValueError
    while end == ",":
        if nested:
            brace = BRACE.match(body, at)
            if not brace:
                raise ValueError
            inner, at = _level(body, brace.end(), depth + 1)
            items.append(inner)
            after = END.match(body, at)
        else:
            after = ELEMENT.match(body, at)
            items.append(_element(after))
        if not after:
            raise ValueError
        at, end = after.end(), after["end"]
    return items, at


def _element(found: re.Match[str] | None) -> str | None:
    if not found:
        raise ValueError
    if found[1] is not None:
        return _unescaped(found[1])
    bare = _trimmed(found[2])
    if not bare:
        raise ValueError
    return None if bare.upper() == "NULL" else _unescaped(bare)


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
        return "{" + ",".join("NULL" if each is None else quote_element(codec.write_text(each)) for each in value) + "}"

    def to_text(value: Any) -> str:
        shape = _shape(value)
        return written(value, len(shape)) if shape else "{}"

    def from_binary(data: bytes) -> list[Any]:
        dimensions, nulls, element = exactly(data[:12], ">iiI")
        if not 0 <= dimensions <= MOST_DIMENSIONS or nulls not in (0, 1) or element != element_oid:
            raise ValueError
        at = 12 + 8 * dimensions
        shape = exactly(data[12:at], f">{2 * dimensions}i")[::2]
        count = math.prod(shape) if shape else 0
        if any(each < 0 for each in shape) or count > (len(data) - at) // 4:
            raise ValueError
        values: list[Any] = []
        for _ in range(count):
            (size,) = exactly(data[at : at + 4], ">i")
            at += 4
            if size < -1 or size > len(data) - at:
                raise ValueError
            values.append(None if size == -1 else codec.read_binary(data[at : at + size]))
            at += max(size, 0)
        if at != len(data):
            raise ValueError
        for width in reversed(shape[1:] if count else ()):
            values = [values[place : place + width] for place in range(0, len(values), width)]
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
        return [read_one(each) for each in _elements(text)]

    def read_one(element: Any) -> Any:
        if isinstance(element, list):
            return [read_one(each) for each in element]
        return None if element is None else codec.read_text(element)

    # A list that is no array is malformed, an element that is none of its type has the type's own code.
    return Codec(read, to_text, from_binary, to_binary, codec.malformed, codec.out_of_range)
