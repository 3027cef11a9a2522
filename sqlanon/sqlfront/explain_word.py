"""EXPLAIN before a statement, for whoever answers the statement."""

from __future__ import annotations

import re

from sqlanon.errors import Refused

PLAN = "QUERY PLAN"  # the column of the answer, as in PostgreSQL


def split_explain(text: str) -> tuple[bool, str]:
    """Whether EXPLAIN stands before the statement, and the text with that word blanked out."""
    word = re.match(r"\s*EXPLAIN\b", text, flags=re.IGNORECASE)
    if word is None:
        return False, text
    rest = text[word.end() :]
    if re.match(r"[\s(]*(SELECT|WITH)\b", rest, flags=re.IGNORECASE) is None:
        hint = "EXPLAIN SELECT … is free, and shows cost, noise and what would run"
        raise Refused("EXPLAIN takes a SELECT, and no options", hint=hint, sqlstate="0A000")
    return True, " " * word.end() + rest
