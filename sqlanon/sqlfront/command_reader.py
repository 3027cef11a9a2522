"""The tokens of one command, taken from the left: words, names, values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from sqlanon.errors import Refused
from sqlanon.sqlfront.lexer import Statement, Token, statements

MAX_COUNT = 2**31 - 1


@dataclass
class CommandReader:
    statement: Statement
    place: int = 0
    tokens: Sequence[Token] = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.statement.tokens

    @property
    def token(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def take(self, *words: str) -> bool:
        """Whether these words or symbols come next; they are taken."""
        end = self.place + len(words)
        found = [each.value if each.kind in ("word", "symbol") else "" for each in self.tokens[self.place : end]]
        if found != list(words):
            return False
        self.place = end
        return True

    def name(self) -> str:
        token = self.token
        if token is None or token.kind not in ("word", "quoted"):
            self.wrong()
        self.place += 1
        return token.value

    def dotted(self) -> str:
        name = self.name()
        while self.take("."):
            name += "." + self.name()
        return name

    def value(self) -> str:
        """A name, string or number, signs included."""
        sign = "-" if self.take("-") else ""
        if not sign:
            self.take("+")
        token = self.token
        if token is None or token.kind in ("symbol", "parameter") or (sign and token.kind != "number"):
            self.wrong()
        self.place += 1
        return sign + token.value

    def count(self) -> int:
        text = self.value()
        if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit() or len(text) > 11:
            self.wrong()
        if int(text) < 0:
            raise Refused("cursor can only scan forward", sqlstate="55000", hint="FETCH FORWARD is answered")
        return min(int(text), MAX_COUNT)

    def rest(self) -> Statement:
        """What is left, as a statement of its own."""
        if self.token is None:
            self.wrong()
        return statements(self.statement.text[self.token.start :])[0]

    def end(self) -> None:
        if self.token is not None:
            self.wrong()

    def wrong(self) -> NoReturn:
        token = self.token
        if token is None:
            raise Refused("syntax error at end of input", sqlstate="42601", position=len(self.statement.text) + 1)
        text = self.statement.text[token.start : token.end][:40]
        raise Refused(f'syntax error at or near "{text}"', sqlstate="42601", position=token.start + 1)
