"""PostgreSQL's ways to write a text: E'…', U&'…', $tag$…$tag$, and parts on several lines.

All of them become plain texts before the parser sees them, read from the statement itself: the parser's own reading
of escapes is another. Whatever rule holds for a text so holds for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from sqlanon.errors import Refused

LETTERS = {"b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v"}
_ESCAPED = re.compile(
    r"''|\\(?:u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|x(?P<hex>[0-9a-fA-F]{1,2})"
    r"|(?P<octal>[0-7]{1,3})|(?P<wrong>[uU])|(?P<other>.))|(?P<plain>[^'\\]+)",
    re.DOTALL,
)


def plain_texts(tokens: Sequence[Token], text: str) -> list[Token]:
    """The tokens of a statement, in which all texts are plain and whole."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        read = READERS.get(token.token_type)
        if read is None:
            found.append(token)
            place += 1
            continue
        last = place
        value = read(text[token.start : token.end + 1])
        while last + 1 < len(tokens) and _goes_on(token, tokens[last], tokens[last + 1], text):
            last += 1
            value += _continued(token, text[tokens[last].start : tokens[last].end + 1])
        if token.token_type == TokenType.UNICODE_STRING:
            value, last = _unicode(value, tokens, last, text)
        place = last + 1
        found.append(_string(token, value, tokens[last].end))
    return found


def _string(token: Token, value: str, end: int) -> Token:
    return Token(
        token_type=TokenType.STRING, text=value, line=token.line, col=token.col, start=token.start, end=end,
        comments=token.comments,
    )  # fmt: skip


def _goes_on(first: Token, before: Token, after: Token, text: str) -> bool:
    """Whether two texts are one, as they are with nothing but space and a line's end between them."""
    if after.token_type != TokenType.STRING or first.token_type == TokenType.HEREDOC_STRING:
        return False
    between = re.sub(r"--[^\n\r]*", "", text[before.end + 1 : after.start])
    return not between.strip() and bool(re.search(r"[\n\r]", between))


def _continued(first: Token, raw: str) -> str:
    if first.token_type == TokenType.BYTE_STRING:
        if "\\" in raw:  # where it ends is told by rules that the tokens were not read by
            raise Refused("an escape in the second line of a text is not answered", hint="write E'…' on one line")
        return decode_escapes(f"E{raw}")
    return unquote_string(raw)


def unquote_string(raw: str) -> str:
    return raw[1:-1].replace("''", "'")


def decode_escapes(raw: str) -> str:
    r"""The text that E'…' stands for. Octal and hexadecimal escapes are bytes of UTF-8, as in PostgreSQL.

    >>> decode_escapes(r"E'a\tb\'c''d \\ \u00fc\xc3\xbc \101 \uD83D\uDE00 \q'")
    "a\tb'c'd \\ üü A 😀 q"
    """
    made = bytearray()
    for match in _ESCAPED.finditer(raw, 2, len(raw) - 1):
        kind = match.lastgroup
        given = match.group(kind) if kind else "'"
        if kind in ("four", "eight"):
            made += character(int(given, 16), "22025").encode("utf-8", "surrogatepass")
        elif kind in ("hex", "octal"):
            made.append(int(given, 16 if kind == "hex" else 8) & 0xFF)
        elif kind == "wrong":
            hint = r"write \uXXXX or \UXXXXXXXX"
            raise Refused("invalid Unicode escape", hint=hint, sqlstate="22025")
        else:
            made += LETTERS.get(given, given.encode()) if kind == "other" else given.encode()
    return _whole(made.decode("utf-8", "surrogatepass") if _is_text(made) else None)


def _is_text(made: bytearray) -> bool:
    try:
        made.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _whole(text: str | None) -> str:
    """Two halves of a character are one; half a one is none."""
    try:
        found = text.encode("utf-16", "surrogatepass").decode("utf-16") if text is not None else "\0"
    except UnicodeDecodeError:
        found = "\0"
    if "\0" in found:
        raise Refused("a text holds an escape that is no character", sqlstate="22021")
    return found


def character(number: int, sqlstate: str) -> str:
    if not 0 < number <= 0x10FFFF:
        raise Refused("invalid Unicode escape value", sqlstate=sqlstate)
    return chr(number)


def dollars(raw: str) -> str:
    """
    >>> dollars("$tag$ it's $$ $tag$")
    " it's $$ "
    """
    size = raw.index("$", 1) + 1
    return raw[size:-size]


def _unicode(value: str, tokens: Sequence[Token], last: int, text: str) -> tuple[str, int]:
    """The text of U&'…', and its last token: UESCAPE '!' may follow."""
    mark = "\\"
    if last + 1 < len(tokens) and tokens[last + 1].text.upper() == "UESCAPE":
        given = tokens[last + 2] if last + 2 < len(tokens) else None
        mark = given.text if given is not None and given.token_type == TokenType.STRING else ""
        if len(mark) != 1 or mark in "+'\"" or mark.isspace() or mark in "0123456789abcdefABCDEF":
            raise Refused("UESCAPE takes one character", sqlstate="42601")
        last += 2
    return decode_unicode(value, mark), last


def decode_unicode(value: str, mark: str = "\\") -> str:
    r"""
    >>> decode_unicode(r"d\0061t\+000061 \\"), decode_unicode("d!0061!!", "!")
    ('data \\', 'da!')
    """
    sign = re.escape(mark)
    pattern = re.compile(rf"{sign}(?:({sign})|([0-9a-fA-F]{{4}})|\+([0-9a-fA-F]{{6}})|)")

    def one(match: re.Match[str]) -> str:
        if match.group(1):
            return mark
        code = match.group(2) or match.group(3)
        if code is None:
            raise Refused("invalid Unicode escape", hint=f"write {mark}XXXX or {mark}+XXXXXX", sqlstate="42601")
        return character(int(code, 16), "42601")

    return _whole(pattern.sub(one, value))


READERS: dict[TokenType, Callable[[str], str]] = {
    TokenType.STRING: unquote_string,
    TokenType.BYTE_STRING: decode_escapes,
    TokenType.HEREDOC_STRING: dollars,
    TokenType.UNICODE_STRING: lambda raw: unquote_string(raw[2:]),
}


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
