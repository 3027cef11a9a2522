"""The limits on SQL that strangers send: the server, the gateway and the catalog all refuse what is longer.

Every limit depends on the text alone, and is checked before the work that it bounds.
"""

from __future__ import annotations

from collections.abc import Sized

from sqlanon.errors import Refused

# Reading is linear, and still a long text would keep all other clients waiting. The longest statement that a known
# client sends to the catalog has 7,000 characters.
MAX_TEXT = 20_000
MAX_TOKENS = 10_000
MAX_NODES = 3_000  # of the tree of a statement that the gateway binds
MAX_DEPTH = 20  # subqueries of such a statement inside each other
MAX_CATALOG_NODES = 20_000  # the catalog reads names and types alone: a node costs it less
MAX_CATALOG_DEPTH = 100  # expressions and subqueries inside each other


def has_half_characters(text: str) -> bool:
    """Halves of surrogate pairs, which no engine can be sent.

    >>> has_half_characters("é€😀"), has_half_characters("a\\ud800")
    (False, True)
    """
    return not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text)


def require_text(text: str, most: int = MAX_TEXT) -> None:
    """Refuse a text that is too long, or that no database could be sent."""
    if len(text) > most:
        raise Refused(f"a statement has at most {most} characters", sqlstate="54001")
    if "\0" in text:
        raise Refused("a statement holds a zero byte", sqlstate="22021")
    if has_half_characters(text):
        raise Refused("a statement holds half a character", sqlstate="22021")


def require_tokens(tokens: Sized) -> None:
    if len(tokens) > MAX_TOKENS:
        raise Refused(f"a statement has at most {MAX_TOKENS} words and signs", sqlstate="54001")


def nested_too_deeply() -> Refused:
    """For a parser or binder that ran out of stack."""
    return Refused("the statement is nested too deeply", sqlstate="54001")
