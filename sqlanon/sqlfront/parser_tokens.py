"""The tokens of a statement for the parser, where its own tokenizer reads something else than PostgreSQL does.

- The tokenizer takes `$1,$` in `IN ($1,$2)` for a dollar quote: a blank after each parameter makes it read a parameter.
- It ends the comment /*/* a */ b */ too early: comments are blanked out.
- It reads escapes in its own way: in PostgreSQL's dialect it is given an empty text in place of each literal, and the
  token gets the value that `literals` reads. Plain texts on one line, which both read alike, stay as they are.

All of them are found here, outside of quotes. Afterwards every token stands where it stands in the text, so that errors
point at the right place.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot.dialects.dialect import Dialect, DialectType
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import Token, TokenType

from sqlanon.errors import Refused
from sqlanon.sqlfront.lexer import comment_end
from sqlanon.sqlfront.limits import require_tokens
from sqlanon.sqlfront.literals import START, QuotedText, find_literal, require_mark

# Where a comment, a literal or a parameter may start, behind all that is none.
_BETWEEN = re.compile(
    rf"""
    (?: (?! /\* | {START} | \$\w )
        (?: --[^\n\r]*+ | "(?:[^"]|"")*+" | [^\W\d][\w$]*+ | [^$'"/\-\w]++ | \d++ | . )
    )*+
    """,
    re.VERBOSE | re.DOTALL,
)
_PARAMETER = re.compile(r"\$\w+")
# Without any of these, the tokenizer reads a text as PostgreSQL does: plain literals of one line.
_SPECIAL = re.compile(r"\$|/\*|[eE&]'|'[ \t\f]*+(?:[\n\r]|--)")


class _Mark(NamedTuple):
    start: int
    end: int
    literal: QuotedText | None = None
    parameter: bool = False


def tokenize(text: str, dialect: DialectType) -> list[Token]:
    r"""
    >>> [token.text for token in tokenize("a IN ($1,$2) /*/* b */ c */", "postgres")]
    ['a', 'IN', '(', '$', '1', ',', '$', '2', ')']
    >>> [token.text for token in tokenize(r"E'\x41' U&'!0042' UESCAPE '!' $$'$$", "postgres")]
    ['A', 'B', "'"]
    """
    reader = Dialect.get_or_raise(dialect)
    if _SPECIAL.search(text) is None:
        tokens = reader.tokenize(text)
        require_tokens(tokens)
        return tokens
    is_postgres = isinstance(reader, Postgres)
    pieces: list[str] = []
    blanks: list[int] = []  # that are put in, by their places in the text with blanks
    literals: dict[int, QuotedText] = {}
    done = 0
    for mark in _marks(text, strict=is_postgres):
        if mark.parameter:
            pieces += [text[done : mark.end], " "]
            blanks.append(mark.end + len(blanks))
        elif mark.literal is None:
            pieces += [text[done : mark.start], _blanked(text[mark.start : mark.end])]
        elif is_postgres and (mark.literal.is_text or mark.literal.form == "u&"):
            literals[mark.start] = mark.literal
            if mark.literal.form == "" and len(mark.literal.parts) == 1:
                continue
            # With blanks around it, or the tokenizer would take 'a'$$b$$ for one text, and U&$$a$$ for U&'a'.
            pieces += [text[done : mark.start], " '", _blanked(text[mark.start + 1 : mark.end - 1]), "' "]
            blanks.append(mark.start + len(blanks))
            blanks.append(mark.end + len(blanks))
        else:
            continue
        done = mark.end
    spaced = "".join(pieces) + text[done:]
    tokens = [_moved(token, blanks, spaced) for token in reader.tokenize(spaced)]
    require_tokens(tokens)
    return _with_values(tokens, literals) if literals else tokens


def _blanked(text: str) -> str:
    return re.sub(r"[^\n\r]", " ", text)


def _with_values(tokens: list[Token], literals: dict[int, QuotedText]) -> list[Token]:
    """Give the tokens of literals their values; U&'…' UESCAPE '!' becomes one token."""
    found: list[Token] = []
    left = dict(literals)
    waiting = iter(tokens)
    ahead = next(waiting, None)
    while ahead is not None:
        token, ahead = ahead, next(waiting, None)
        found.append(token)
        literal = left.pop(token.start, None) if token.token_type == TokenType.STRING else None
        if literal is None:
            continue
        mark = "\\"
        if literal.form == "u&" and ahead is not None and _is_uescape(ahead):
            given = next(waiting, None)
            mark = require_mark(left.pop(given.start, None) if given is not None else None)
            assert given is not None
            token.end = given.end
            ahead = next(waiting, None)
        token.text = literal.value(mark)
    if left:  # the tokenizer takes it for something else, such as a part of a comment
        raise Refused("syntax error", sqlstate="42601", position=min(left) + 1)
    return found


def _is_uescape(token: Token) -> bool:
    return token.text.upper() == "UESCAPE" and token.end - token.start + 1 == len("UESCAPE")  # and no quoted name


def _moved(token: Token, blanks: list[int], spaced: str) -> Token:
    if not blanks:
        return token
    line = bisect_left(blanks, spaced.rfind("\n", 0, token.start) + 1)
    before, within = bisect_left(blanks, token.start), bisect_left(blanks, token.end)
    token.start -= before
    token.end -= within
    token.col -= within - line
    return token


def _marks(text: str, *, strict: bool) -> Iterator[_Mark]:
    """Comments, parameters and literals. Where one is not closed, it is refused, or left to the tokenizer to refuse."""
    place = 0
    while (place := _end_of(_BETWEEN, text, place)) < len(text):
        start = place
        try:
            if text.startswith("/*", start):
                literal, place = None, comment_end(text, start)
            elif (literal := find_literal(text, start)) is not None:
                place = literal.end
            else:
                place = _end_of(_PARAMETER, text, start)
                yield _Mark(start, place, parameter=True)
                continue
        except Refused:
            if strict:
                raise
            return
        yield _Mark(start, place, literal)


def _end_of(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    assert match is not None
    return match.end()
