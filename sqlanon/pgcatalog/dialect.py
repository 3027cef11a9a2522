"""Reading a statement: PostgreSQL's SQL, with names and types as they were written."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import TokenType

from sqlanon.errors import Refused
from sqlanon.sqlfront.dialects import Joined
from sqlanon.sqlfront.limits import MAX_CATALOG_NODES, nested_too_deeply, require_text
from sqlanon.sqlfront.parse_trees import parse_trees

SHORT = 4_000
UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")  # that may stand after an INTERVAL
KEPT = ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "OVERLAY")

logging.getLogger("sqlglot").setLevel(logging.ERROR)


class Written(Postgres):
    """PostgreSQL's dialect, but functions keep their names, and subscripts their numbers."""

    INDEX_OFFSET = 0

    class Tokenizer(Postgres.Tokenizer):
        # oid, regclass … are types like others: oid[] is not read otherwise.
        KEYWORDS: ClassVar = {
            word: token for word, token in Postgres.Tokenizer.KEYWORDS.items() if token != TokenType.OBJECT_IDENTIFIER
        }

    class Parser(Joined, PostgresParser):
        FUNCTIONS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {
            name: parser for name, parser in PostgresParser.FUNCTION_PARSERS.items() if name in KEPT
        }

        def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
            """INTERVAL '1 day 02:00' as it is written: the parser would keep its first part alone."""
            if not this.is_string:
                return super()._parse_interval_span(this, parse_function_unit)
            unit: exp.Expr | None = None
            if self._curr and self._curr.text.upper() in UNITS:
                unit = self._parse_var(any_token=True, upper=True)
                if self._match_text_seq("TO"):
                    last = self._parse_var(any_token=True, upper=True)
                    unit = self.expression(exp.IntervalSpan(this=unit, expression=last))
            return self.expression(exp.Interval(this=this, unit=unit))


@lru_cache(maxsize=256)
def _remembered(text: str) -> exp.Query | exp.Values:
    return _read(text)


def parse_query(text: str) -> exp.Query | exp.Values:
    """The tree of a statement, which nobody changes: those that clients send again and again are read once."""
    return _remembered(text) if len(text) <= SHORT else _read(text)


def _read(text: str) -> exp.Query | exp.Values:
    """One statement that reads, of bounded size; everything else is refused in words that hold nothing of it."""
    require_text(text)
    try:
        trees = [tree for tree in parse_trees(text, Written) if tree is not None]
        found = [tree for tree in trees if type(tree) is not exp.Semicolon]
        if len(found) != 1:
            raise Refused("exactly one statement is answered at a time", sqlstate="42601")
        (tree,) = found
        if not isinstance(tree, exp.Query | exp.Values):
            raise Refused("only SELECT is answered here", sqlstate="0A000")
        if type(tree) is exp.Select and not tree.expressions:
            raise Refused("a SELECT of nothing is not answered", sqlstate="0A000")
        if any(not any(group.args.values()) for group in tree.find_all(exp.Group)):
            raise Refused("GROUP BY takes a list of expressions", sqlstate="42601")
        if sum(1 for _ in tree.walk()) > MAX_CATALOG_NODES:
            raise Refused("the statement is too long to be answered", sqlstate="54001")
    except (SqlglotError, ValueError, AttributeError, TypeError, KeyError, IndexError):
        # The parser is not made for hostile text: whatever it stumbles over is a syntax error.
        raise Refused("syntax error", sqlstate="42601") from None
    except RecursionError:
        raise nested_too_deeply() from None
    return tree
