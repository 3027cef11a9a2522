"""PostgreSQL's tokens, in one pass over the text: enough to split statements and to read commands such as SET.

The server reads texts of strangers with this alone. It looks at every character once, and what it does not know
is a symbol of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlanon.errors import Refused
from sqlanon.sqlfront.limits import MAX_TEXT, require_text, require_tokens
from sqlanon.sqlfront.literals import SIMPLE, START, QuotedText, find_literal, not_closed, require_mark

Kind = Literal["word", "quoted", "string", "number", "parameter", "symbol"]

_TOKEN = re.compile(
    rf"""
    (?P<space>   [\s]+ | --[^\n\r]* )
  | (?P<comment> /\* )
  | (?P<string>  {SIMPLE} )
  | (?P<literal> (?={START}) )
  | (?P<quoted>  "(?:[^"]|"")+" )
  | (?P<named>   [uU]&" )
  | (?P<open>    " )
  | (?P<parameter> \$\d{{1,5}}(?!\w) )
  | (?P<number>  (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
  | (?P<word>    [^\W\d][\w$]* )
  | (?P<symbol>  ::|<=|>=|<>|!=|\|\||[^\w\s"'] )
    """,
    re.VERBOSE | re.DOTALL,
)
_EDGE = re.compile(r"/\*|\*/")  # of a comment


class Token(NamedTuple):  # there are many of them, and this is the quickest to make
    kind: Kind
    value: str  # of a word its lower case, of a quoted name or string what stands inside
    start: int
    end: int


def tokens(text: str, most: int = MAX_TEXT) -> list[Token]:
    """All tokens without spaces and comments, of a text of so many characters at most.

    >>> [(token.kind, token.value) for token in tokens("SET App_Name = 'it''s' -- note")]
    [('word', 'set'), ('word', 'app_name'), ('symbol', '='), ('string', "it's")]
    >>> [token.value for token in tokens("SELECT $tag$ a;b $tag$, E'\\\\n', \\"A\\"\\"b\\", $1")]
    ['select', ' a;b ', ',', '\\n', ',', 'A"b', ',', '$1']
    """
    require_text(text, most)
    found: list[Token] = []
    unicode: dict[int, QuotedText] = {}  # by their places among the tokens
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup == "open":
            raise not_closed(place)
        kind, raw, end = str(match.lastgroup), match.group(), match.end()
        if kind == "comment":
            place = comment_end(text, place)
            continue
        if kind == "named":
            hint = 'write the name itself between "…"'
            raise Refused('names in U&"…" are not read', hint=hint, sqlstate="0A000", position=place + 1)
        if kind == "string":
            found.append(Token("string", raw[1:-1].replace("''", "'"), place, end))
        elif kind == "literal":
            literal = find_literal(text, place)
            assert literal is not None
            end = literal.end
            if literal.form == "u&":
                unicode[len(found)] = literal
                found.append(Token("string", "", place, end))
            else:
                found.append(Token("string", literal.value(), place, end))
        elif kind == "word":
            found.append(Token("word", raw.lower(), place, end))
        elif kind == "quoted":
            found.append(Token("quoted", raw[1:-1].replace('""', '"'), place, end))
        elif kind == "number":
            found.append(Token("number", raw, place, end))
        elif kind == "parameter":
            found.append(Token("parameter", raw, place, end))
        elif kind == "symbol":
            found.append(Token("symbol", raw, place, end))
        place = end
    if most == MAX_TEXT:
        require_tokens(found)
    for at in reversed(unicode):
        _decode_token(found, at, unicode[at], text)
    return found


def _decode_token(found: list[Token], at: int, literal: QuotedText, text: str) -> None:
    """Make one token of U&'…' UESCAPE '!'."""
    last, mark = at, "\\"
    if at + 1 < len(found) and found[at + 1][:2] == ("word", "uescape"):
        last = min(at + 2, len(found) - 1)
        mark = require_mark(find_literal(text, found[last].start))
    found[at : last + 1] = [Token("string", literal.value(mark), found[at].start, found[last].end)]


def comment_end(text: str, start: int) -> int:
    """PostgreSQL's comments nest. One pass: to look for each end anew would take time with the square of the length."""
    depth = 0
    for edge in _EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if not depth:
            return edge.end()
    raise Refused("a comment is not closed", sqlstate="42601", position=start + 1)


@dataclass(frozen=True)
class Statement:
    """One statement of a text, with its tokens; positions count from the start of its own text."""

    text: str
    tokens: tuple[Token, ...]

    def word(self, place: int) -> str:
        """The word at a place, or nothing."""
        if place < len(self.tokens) and self.tokens[place].kind == "word":
            return self.tokens[place].value
        return ""


def statements(text: str, most: int = MAX_TEXT) -> list[Statement]:
    """The statements of a text, split at semicolons outside of quotes and comments; empty ones are left out.

    >>> [part.text for part in statements("SELECT ';'; /* ; */ ; COMMIT")]
    ["SELECT ';'", 'COMMIT']
    """
    parts: list[list[Token]] = [[]]
    for token in tokens(text, most):
        if token.kind == "symbol" and token.value == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    found = []
    for part in parts:
        if part:
            start, end = part[0].start, part[-1].end
            if start:
                part = [Token(each.kind, each.value, each.start - start, each.end - start) for each in part]
            found.append(Statement(text[start:end], tuple(part)))
    return found
