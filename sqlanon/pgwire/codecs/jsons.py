"""JSON: json keeps its text, jsonb is written as PostgreSQL writes what it has understood."""

from __future__ import annotations

import json
from typing import Any

from sqlanon.pgwire.codecs import Codec
from sqlanon.pgwire.codecs.numbers import NUMERIC
from sqlanon.pgwire.codecs.strings import utf8


class NoCharacter(ValueError):
    """An escape that stands for no character that a text can hold."""


class _Number(str):
    """The digits of a number, which Python's own numbers would round."""


def _no_constant(word: str) -> None:
    raise ValueError


def _by_key(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keys by length, then by bytes; of equal keys the last one stays."""
    last = dict(pairs)
    return {key: last[key] for key in sorted(last, key=lambda key: (len(_bytes(key)), _bytes(key)))}


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a character
        raise ValueError from None


def _loaded(text: str) -> Any:
    try:
        return json.loads(
            text, parse_constant=_no_constant, parse_int=_Number, parse_float=_Number, object_pairs_hook=_Pairs
        )
    except RecursionError:
        raise ValueError from None


class _Pairs(list[tuple[str, Any]]):
    """An object as it was read."""


def _read(text: str) -> str:
    """The text itself, once it is known to be JSON."""
    _loaded(text)
    return text


def normal(text: str) -> str:
    """JSON as jsonb is written.

    >>> normal('{"bb":1E2, "a":[1.50,-0,null] , "bb":"\\u00e9"}')
    '{"a": [1.50, 0, null], "bb": "é"}'
    """
    try:
        return _normal(_loaded(text))
    except RecursionError:
        raise ValueError from None


def _normal(value: Any) -> str:
    if isinstance(value, _Pairs):
        return "{" + ", ".join(f"{_normal(key)}: {_normal(item)}" for key, item in _by_key(value).items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_normal, value)) + "]"
    if isinstance(value, _Number):
        return NUMERIC.write_text(NUMERIC.read_text(value))
    if isinstance(value, str):
        _bytes(value)
        if "\0" in value:
            raise NoCharacter
    return json.dumps(value, ensure_ascii=False)


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _jsonb_from_binary(data: bytes) -> str:
    if data[:1] != b"\x01":
        raise ValueError
    return normal(utf8(data[1:]))


JSON = Codec(_read, _write, lambda data: _read(utf8(data)), lambda value: _write(value).encode())
JSONB = Codec(normal, _write, _jsonb_from_binary, lambda value: b"\x01" + _write(value).encode())
