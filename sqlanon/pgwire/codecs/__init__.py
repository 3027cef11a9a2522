"""How values of each type are written and read, in PostgreSQL's text and binary formats.

A function here raises ValueError for what is not of its type, OverflowError for what its type or Python cannot hold,
and TypeError for a Python value of another kind; `sqlanon.pgwire.types` turns them into errors that carry no value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class NotOffered(Exception):
    """A form of a type that PostgreSQL knows and this server does not."""


@dataclass(frozen=True)
class Codec:
    """Four functions, and the SQLSTATEs of text that is malformed and of values that are out of range."""

    read_text: Callable[[str], Any]
    write_text: Callable[[Any], str]
    read_binary: Callable[[bytes], Any]
    write_binary: Callable[[Any], bytes]
    malformed: str = "22P02"
    out_of_range: str = "22003"
