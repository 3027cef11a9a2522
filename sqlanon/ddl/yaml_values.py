"""Values as YAML of one line, and documents as YAML files: the reader of policies gives the same values back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from sqlanon.errors import PolicyError
from sqlanon.policy.yaml_lines import read_yaml

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[ ./-][A-Za-z0-9_]+)*")
_WORDS = frozenset({"null", "true", "false", "y", "n", "yes", "no", "on", "off"})
_WIDE = 100  # characters: a longer mapping or list is written over several lines


def write_value(value: Any) -> str:
    """A value on one line.

    >>> write_value({"tree": {"*": ["a b", "007", "no"]}, "k": 5, "t": 0.3, "none": None})
    '{tree: {"*": [a b, "007", "no"]}, k: 5, t: 0.3, none: null}'
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _write_float(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_write_text(str(key))}: {write_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(write_value, value)) + "]"
    return _write_text(str(value))


def _write_float(value: float) -> str:
    """
    >>> _write_float(1e-07), _write_float(5.0), _write_float(1e16)
    ('1e-07', '5.0', '1e+16')
    """
    text = repr(value)
    return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(text, text)


def _write_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    if sign.isprintable():
        return sign
    code = ord(sign)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def write_document(document: Mapping[str, Any], note: str = "") -> str:
    """A document as the text of a YAML file, after a note of one line."""
    head = f"# {note}\n" if note else ""
    return head + "\n".join(_block(document, "")) + "\n"


def _block(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        name = f"{indent}{_write_text(str(key))}:"
        short = write_value(item)
        # The parts at the top of a document are easier to read and to compare on lines of their own.
        apart = not indent and isinstance(item, Mapping | list | tuple) and len(item) > 1
        if item and (apart or len(name) + len(short) > _WIDE) and isinstance(item, Mapping):
            yield name
            yield from _block(item, indent + "  ")
        elif item and (apart or len(name) + len(short) > _WIDE) and isinstance(item, list | tuple):
            yield name
            yield from (f"{indent}  - {write_value(each)}" for each in item)
        else:
            yield f"{name} {short}"


def read_value(text: str, *, dates: bool = False) -> Any:
    """The value of a text on one line; where dates may stand, 2024-01-31 is one.

    >>> read_value("{t: 0.3, attribute: disease}"), read_value("[1, '2']"), read_value("5 per month")
    ({'t': 0.3, 'attribute': 'disease'}, [1, '2'], '5 per month')
    """
    document = read_yaml(text, dated=lambda _: dates)
    if document.problems:
        found = document.problems[0]
        raise PolicyError(f"a value cannot be read: {found.message}", hint=found.hint)
    return document.data
