"""The tokens of a statement for the parser, where its own tokenizer reads something else than PostgreSQL does.

The tokenizer takes `$1,$` in `IN ($1,$2)` for a dollar quote: a blank after each parameter makes it read a parameter.
It ends the comment /*/* a */ b */ too early: comments are blanked out. Both are found here, outside of quotes;
afterwards every token stands where it stands in the text, so that errors point at the right place.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator

from sqlglot.dialects.dialect import Dialect, DialectType
from sqlglot.tokenizer_core import Token

_PIECE = re.compile(
    r"""
    (?P<comment> /\* )
  | --[^\n\r]*
  | [eE]'(?:[^'\\]|''|\\.)*'
  | '(?:[^']|'')*'
  | "(?:[^"]|"")*"
  | (?P<dollar> \$(?:[^\W\d]\w*)?\$ )
  | (?P<parameter> \$\w+ )
  | [^\W\d][\w$]*
  | [^$'"/\-\w]+ | \d+ | .
    """,
    re.VERBOSE | re.DOTALL,
)
_EDGE = re.compile(r"/\*|\*/")


def tokenize(text: str, dialect: DialectType) -> list[Token]:
    """
    >>> [token.text for token in tokenize("a IN ($1,$2) /*/* b */ c */", "postgres")]
    ['a', 'IN', '(', '$', '1', ',', '$', '2', ')']
    """
    reader = Dialect.get_or_raise(dialect)
    if "$" not in text and "/*" not in text:
        return reader.tokenize(text)
    gaps: list[int] = []
    for is_comment, start, end in _marks(text):
        if is_comment:
            text = text[:start] + re.sub(r"[^\n\r]", " ", text[start:end]) + text[end:]
        else:
            gaps.append(end)
    edges = [0, *gaps, len(text)]
    spaced = " ".join(text[start:end] for start, end in itertools.pairwise(edges))
    # Blank number n, counted from 0, stands at gaps[n] + n in the text with blanks.
    blanks = [gap + number for number, gap in enumerate(gaps)]
    return [_moved(token, blanks, spaced) for token in reader.tokenize(spaced)]


def _moved(token: Token, blanks: list[int], spaced: str) -> Token:
    line = bisect_left(blanks, spaced.rfind("\n", 0, token.start) + 1)
    before, within = bisect_left(blanks, token.start), bisect_left(blanks, token.end)
    token.start -= before
    token.end -= within
    token.col -= within - line
    return token


def _marks(text: str) -> Iterator[tuple[bool, int, int]]:
    """Comments and parameters, where they start and end; the first are marked.

    None after a quote or comment that is not closed, which the tokenizer refuses.
    """
    place = 0
    while place < len(text):
        match = _PIECE.match(text, place)
        if match is None:
            return
        start, place = match.span()
        if match.lastgroup == "comment":
            end = _comment_end(text, start)
            if end is None:
                return
            place = end
            yield True, start, end
        elif match.lastgroup == "dollar":
            closing = text.find(match.group(), place)
            if closing < 0:
                return
            place = closing + len(match.group())
        elif match.lastgroup == "parameter":
            yield False, start, place


def _comment_end(text: str, start: int) -> int | None:
    """Comments nest."""
    depth = 0
    for edge in _EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if not depth:
            return edge.end()
    return None
