"""PostgreSQL's ways to write a text: '…', E'…', U&'…', $tag$…$tag$, and parts on several lines.

The server's lexer and the gateway's parser both read literals here, so that a text means the same wherever it is read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sqlanon.errors import Refused

DOLLAR = r"\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$"
START = rf"(?:[eEbBxXnN]|[uU]&)?'|{DOLLAR}"  # of a literal, if it does not follow a letter
SIMPLE = r"'[^']*+(?:''[^']*+)*+'(?![ \t\f]*+(?:[\n\r]|--))"  # a plain text that no other line goes on
_START = re.compile(START)
_PLAIN = re.compile(r"[^']*+(?:''[^']*+)*+'")
_ESCAPED = re.compile(r"[^'\\]*+(?:(?:''|\\.)[^'\\]*+)*+'", re.DOTALL)
# Between two parts of one text: blanks and notes, with at least one end of a line.
_NEXT_PART = re.compile(r"(?:[ \t\f]++|--[^\n\r]*+)*+[\n\r](?:[ \t\n\r\f]++|--[^\n\r]*+[\n\r])*+'")
_ESCAPE = re.compile(
    r"(?P<quote>'')|\\(?:u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|(?P<wrong>[uU])"
    r"|x(?P<hex>[0-9a-fA-F]{1,2})|(?P<octal>[0-7]{1,3})|(?P<letter>.))|(?P<plain>[^'\\]+)",
    re.DOTALL,
)
_LETTERS = {"b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t"}  # any other letter stands for itself


class QuotedText(NamedTuple):
    """A literal as it stands in a statement."""

    form: str  # what stands before the quote, in lower case: e, u&, n, b, x or nothing; $ of a dollar quote
    parts: tuple[str, ...]  # what stands inside the quotes, as it is written
    end: int

    @property
    def is_text(self) -> bool:
        """Whether PostgreSQL takes it for a text as it stands: not bits, and no escapes that UESCAPE may change."""
        return self.form in ("", "e", "$")

    def value(self, mark: str = "\\") -> str:
        """The text that the literal stands for; of B'…' and X'…', the digits. `mark` begins the escapes of U&'…'."""
        if self.form == "$":
            return self.parts[0]
        if self.form == "e":
            return decode_escapes(*self.parts)
        joined = "".join(self.parts).replace("''", "'")
        return decode_unicode(joined, mark) if self.form == "u&" else joined


def find_literal(text: str, start: int) -> QuotedText | None:
    r"""The literal that starts at a place of a statement, if one does.

    >>> find_literal("SELECT E'it\\'s' -- note\n  ' on' FROM t", 7)
    QuotedText(form='e', parts=("it\\'s", ' on'), end=31)
    >>> find_literal("$tag$ it's $$ $tag$", 0).value()
    " it's $$ "
    """
    opening = _START.match(text, start)
    if opening is None:
        return None
    if opening.group()[0] == "$":
        closing = text.find(opening.group(), opening.end())
        if closing < 0:
            raise not_closed(start)
        return QuotedText("$", (text[opening.end() : closing],), closing + len(opening.group()))
    form = opening.group()[:-1].lower()
    rest = _ESCAPED if form == "e" else _PLAIN
    parts: list[str] = []
    following: re.Match[str] | None = opening
    end = start
    while following is not None:
        part = rest.match(text, following.end())
        if part is None:
            raise not_closed(following.end() - 1)
        parts.append(part.group()[:-1])
        end = part.end()
        following = _NEXT_PART.match(text, end)
    return QuotedText(form, tuple(parts), end)


def not_closed(place: int) -> Refused:
    return Refused("a quote is not closed", sqlstate="42601", position=place + 1)


def decode_escapes(*parts: str) -> str:
    r"""The text of E'…', of which the parts are given without their quotes.

    Octal and hexadecimal escapes are bytes, which form UTF-8 together with what stands around them.

    >>> decode_escapes(r"a\tb\'c''d \\ \u00fc\xc3\xbc \101 \uD83D\uDE00 \q\v")
    "a\tb'c'd \\ üü A 😀 qv"
    """
    made = b"".join(map(_decode_part, parts))
    try:
        found = made.decode()
    except UnicodeDecodeError:
        found = "\0"
    if "\0" in found:
        raise Refused("the escapes of a text do not form characters", hint="write UTF-8", sqlstate="22021")
    return found


def _decode_part(part: str) -> bytes:
    made = bytearray()
    first = 0  # half of a character, whose other half must follow at once
    for match in _ESCAPE.finditer(part):
        kind = str(match.lastgroup)
        given = match.group(kind)
        if kind == "wrong":
            raise Refused("invalid Unicode escape", hint=r"write \uXXXX or \UXXXXXXXX", sqlstate="22025")
        if kind in ("four", "eight"):
            number, first = _join_halves(first, int(given, 16))
            made += chr(number).encode() if number else b""
            continue
        if first:
            break
        if kind in ("hex", "octal"):
            made.append(int(given, 16 if kind == "hex" else 8) & 0xFF)
        elif kind == "quote":
            made += b"'"
        else:  # half a character that was not escaped is refused later, with all other bytes that are no UTF-8
            plain = given.encode("utf-8", "surrogatepass")
            made += _LETTERS.get(given, plain) if kind == "letter" else plain
    if first:
        raise _no_pair()
    return bytes(made)


def _join_halves(first: int, number: int) -> tuple[int, int]:
    """The character of an escape, or the half of one that must be followed by another half."""
    if not 0 < number <= 0x10FFFF:
        raise Refused("invalid Unicode escape value", sqlstate="42601")
    if bool(first) != (0xDC00 <= number < 0xE000):
        raise _no_pair()
    if first:
        return 0x10000 + ((first & 0x3FF) << 10) + (number & 0x3FF), 0
    return (0, number) if 0xD800 <= number < 0xDC00 else (number, 0)


def _no_pair() -> Refused:
    return Refused("invalid Unicode surrogate pair", sqlstate="42601")


def decode_unicode(value: str, mark: str = "\\") -> str:
    r"""The text of U&'…', in which a mark begins the escapes.

    >>> decode_unicode(r"d\0061t\+000061 \\"), decode_unicode("d!0061!!", "!"), decode_unicode(r"\D83D\+00DE00")
    ('data \\', 'da!', '😀')
    """
    sign = re.escape(mark)
    pattern = rf"{sign}(?:({sign})|([0-9a-fA-F]{{4}})|\+([0-9a-fA-F]{{6}})|)|[^{sign}]+"
    made: list[str] = []
    first = 0
    for match in re.finditer(pattern, value):
        code = match.group(2) or match.group(3)
        if code is not None:
            number, first = _join_halves(first, int(code, 16))
            made.append(chr(number) if number else "")
        elif first:
            break
        elif match.group() == mark:
            raise Refused("invalid Unicode escape", hint=f"write {mark}XXXX or {mark}+XXXXXX", sqlstate="42601")
        else:
            made.append(match.group(1) or match.group())
    if first:
        raise _no_pair()
    return "".join(made)


def require_mark(literal: QuotedText | None) -> str:
    """The mark that UESCAPE '!' declares."""
    mark = literal.value() if literal is not None and literal.is_text else ""
    if len(mark) != 1 or not mark.isascii() or mark in "+'\"" or mark.isspace() or mark in "0123456789abcdefABCDEF":
        raise Refused("UESCAPE takes one character", hint="write UESCAPE '!'", sqlstate="42601")
    return mark


_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",{}\\][^",{}\\]*))\s*', re.DOTALL)


def elements(text: str) -> list[str | None]:
    """The texts of an array of one dimension, as PostgreSQL writes it.

    >>> elements('{a, "b \\\\"c", NULL, "NULL"}'), elements("{}")
    (['a', 'b "c', None, 'NULL'], [])
    """
    inside = text.strip()
    wrong = Refused("malformed array literal", hint="write {a,b} or ARRAY['a', 'b']", sqlstate="22P02")
    if not (inside.startswith("{") and inside.endswith("}")):
        raise wrong
    inside = inside[1:-1]
    found: list[str | None] = []
    place = 0
    while inside.strip():
        match = _ELEMENT.match(inside, place)
        if match is None:
            raise wrong
        written, plain = match.groups()
        if written is not None:
            found.append(re.sub(r"\\(.)", r"\1", written, flags=re.DOTALL))
        else:
            found.append(None if plain.strip().upper() == "NULL" else plain.strip())
        place = match.end()
        if place == len(inside):
            break
        if inside[place] != ",":
            raise wrong
        place += 1
    return found
