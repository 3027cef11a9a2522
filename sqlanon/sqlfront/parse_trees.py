"""Parse a text into trees, with the tokens and literals of PostgreSQL."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, DialectType
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import Token, TokenType

from sqlanon.errors import Refused
from sqlanon.sqlfront.parser_tokens import tokenize


def parse_trees(text: str, dialect: DialectType) -> list[exp.Expr | None]:
    """The trees of the statements of a text; in PostgreSQL's dialect, with literals as PostgreSQL reads them."""
    reader = Dialect.get_or_raise(dialect)
    tokens = tokenize(text, reader)
    try:
        parser = reader.parser()
    except TypeError:  # classes of ours cannot inherit from compiled ones
        said = "no statement can be read: the package sqlglotc is installed, whose parser cannot be made stricter"
        raise Refused(said, hint="pip uninstall sqlglotc", sqlstate="58000") from None
    if isinstance(reader, Postgres):
        _refuse_neighbours(tokens)
        _plain_aliases(tokens)
    return parser.parse(tokens, text)


def _refuse_neighbours(tokens: list[Token]) -> None:
    """Two texts side by side, of which the parser would make one."""
    for before, token in pairwise(tokens):
        if before.token_type == token.token_type == TokenType.STRING:
            raise Refused("syntax error", sqlstate="42601", position=token.start + 1)


def _plain_aliases(tokens: list[Token]) -> None:
    """SELECT true AS select: after AS, every word is a name."""
    for before, token in pairwise(tokens):
        if before.token_type == TokenType.ALIAS and token.token_type == TokenType.SELECT:
            token.token_type, token.text = TokenType.VAR, token.text.lower()
