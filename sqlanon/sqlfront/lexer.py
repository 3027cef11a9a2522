"""PostgreSQL's tokens, in one pass over the text: enough to split statements and to read commands such as SET.

The server reads texts of strangers with this alone. It looks at every character once, and what it does not know
is a symbol of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlanon.errors import Refused

# Reading is linear, and still a long text would keep all other clients waiting. The
# gateway takes no longer texts either, and the longest that a known client asks of the catalogue has 7,000 characters.
MAX_TEXT = 20_000
MAX_TOKENS = 10_000

Kind = Literal["word", "quoted", "string", "number", "parameter", "symbol"]

_TOKEN = re.compile(
    r"""
    (?P<space>   [\s]+ | --[^\n\r]* )
  | (?P<comment> /\* )
  | (?P<escaped> [eE]'(?:[^'\\]|''|\\.)*' )
  | (?P<special> (?:[bBxXnN]|[uU]&)'(?:[^']|'')*' )
  | (?P<string>  '(?:[^']|'')*' )
  | (?P<quoted>  "(?:[^"]|"")+" )
  | (?P<open>    (?:[eEbBxXnN]|[uU]&)?['"] )
  | (?P<dollar>  \$(?:[^\W\d]\w*)?\$ )
  | (?P<parameter> \$\d{1,5}(?!\w) )
  | (?P<number>  (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
  | (?P<word>    [^\W\d][\w$]* )
  | (?P<symbol>  ::|<=|>=|<>|!=|\|\||[^\w\s"'] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)|''", re.DOTALL)
_EDGE = re.compile(r"/\*|\*/")  # of a comment
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Token(NamedTuple):  # there are many of them, and this is the quickest to make
    kind: Kind
    value: str  # of a word its lower case, of a quoted name or string what stands inside
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """All tokens without spaces and comments.

    >>> [(token.kind, token.value) for token in tokens("SET App_Name = 'it''s' -- note")]
    [('word', 'set'), ('word', 'app_name'), ('symbol', '='), ('string', "it's")]
    >>> [token.value for token in tokens("SELECT $tag$ a;b $tag$, E'\\\\n', \\"A\\"\\"b\\", $1")]
    ['select', ' a;b ', ',', '\\n', ',', 'A"b', ',', '$1']
    """
    if len(text) > MAX_TEXT:
        raise Refused(f"a text of more than {MAX_TEXT} characters is not read", sqlstate="54001")
    found: list[Token] = []
    place = 0
    while place < len(text):
        if len(found) >= MAX_TOKENS:
            raise Refused(f"a text of more than {MAX_TOKENS} words and signs is not read", sqlstate="54001")
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup == "open":
            raise Refused("a quote is not closed", sqlstate="42601", position=place + 1)
        kind, raw, end = str(match.lastgroup), match.group(), match.end()
        if kind == "comment":
            place = comment_end(text, place)
            continue
        if kind == "dollar":
            closing = text.find(raw, end)
            if closing < 0:
                raise Refused("a quote is not closed", sqlstate="42601", position=place + 1)
            found.append(Token("string", text[end:closing], place, closing + len(raw)))
            place = closing + len(raw)
            continue
        if kind == "word":
            found.append(Token("word", raw.lower(), place, end))
        elif kind == "quoted":
            found.append(Token("quoted", raw[1:-1].replace('""', '"'), place, end))
        elif kind == "string":
            found.append(Token("string", raw[1:-1].replace("''", "'"), place, end))
        elif kind == "escaped":
            found.append(Token("string", _ESCAPE.sub(_unescaped, raw[2:-1]), place, end))
        elif kind == "special":
            found.append(Token("string", raw[raw.index("'") + 1 : -1], place, end))
        elif kind == "number":
            found.append(Token("number", raw, place, end))
        elif kind == "parameter":
            found.append(Token("parameter", raw, place, end))
        elif kind == "symbol":
            found.append(Token("symbol", raw, place, end))
        place = end
    return found


def comment_end(text: str, start: int) -> int:
    """PostgreSQL's comments nest. One pass: to look for each end anew would take time with the square of the length."""
    depth = 0
    for edge in _EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if not depth:
            return edge.end()
    raise Refused("a comment is not closed", sqlstate="42601", position=start + 1)


def _unescaped(match: re.Match[str]) -> str:
    code = match.group(1)
    if code is None:
        return "'"
    if code[0] in "uUx" and len(code) > 1:
        number = int(code[1:], 16)
    elif code[0] in "01234567":
        number = int(code, 8) & 0xFF
    else:
        return _LETTERS.get(code, code)
    if number == 0 or number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise Refused("a string holds an escape that is no character", sqlstate="22021")
    return chr(number)


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


def statements(text: str) -> list[Statement]:
    """The statements of a text, split at semicolons outside of quotes and comments; empty ones are left out.

    >>> [part.text for part in statements("SELECT ';'; /* ; */ ; COMMIT")]
    ["SELECT ';'", 'COMMIT']
    """
    parts: list[list[Token]] = [[]]
    for token in tokens(text):
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
