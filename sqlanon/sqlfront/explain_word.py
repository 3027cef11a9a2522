"""EXPLAIN before a statement, for whoever answers the statement."""

from __future__ import annotations

import re
from typing import Literal

from sqlanon.errors import Refused

PLAN = "QUERY PLAN"  # the column of the answer, as in PostgreSQL


# VERBOSE, or (VERBOSE) as PostgreSQL also writes it.
VERBOSE = re.compile(r"\s*(?:\bVERBOSE\b|\(\s*VERBOSE\s*(?:\b(?:TRUE|ON|1)\s*)?\))", flags=re.IGNORECASE)
Explain = Literal["", "summary", "verbose"]


def split_explain(text: str) -> tuple[Explain, str]:
    """Whether EXPLAIN or EXPLAIN VERBOSE stands before the statement, and the text with these words blanked out.

    >>> split_explain("EXPLAIN (verbose) SELECT 1"), split_explain("SELECT 1")
    (('verbose', '                  SELECT 1'), ('', 'SELECT 1'))
    """
    word = re.match(r"\s*EXPLAIN\b", text, flags=re.IGNORECASE)
    if word is None:
        return "", text
    verbose = VERBOSE.match(text, word.end())
    start = word.end() if verbose is None else verbose.end()
    rest = text[start:]
    if re.match(r"[\s(]*(SELECT|WITH)\b", rest, flags=re.IGNORECASE) is None:
        hint = "EXPLAIN SELECT … is free, and shows cost and error; EXPLAIN VERBOSE SELECT … also what would run"
        raise Refused("EXPLAIN takes a SELECT, and no options but VERBOSE", hint=hint, sqlstate="0A000")
    return "summary" if verbose is None else "verbose", " " * start + rest
