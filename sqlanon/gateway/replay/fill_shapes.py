"""Shapes of statements, as logs keep them, made into statements again: each ? becomes a literal that fits its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sqlanon.errors import SqlanonError
from sqlanon.gateway import Gate
from sqlanon.sqlfront.dialects import READ
from sqlanon.sqlfront.parser_tokens import tokenize

SHARE = exp.Literal.number("0.5")  # of a quantile
LITERALS = {
    "int8": exp.Literal.number(2), "float8": exp.Literal.number("0.5"), "bool": exp.true(),
    "date": exp.cast(exp.Literal.string("2025-07-01"), "DATE"),
    "timestamp": exp.cast(exp.Literal.string("2025-07-01"), "TIMESTAMP"),
}  # fmt: skip
EXPLAINED = ("EXPLAIN VERBOSE ", "EXPLAIN ")
TEXTS = ("text 1", "2025-07-01", "month", "1 day")


def fill_shape(gate: Gate, shape: str, principal: str, dialect: str = "duckdb") -> str | None:
    """A statement of this shape that can be prepared, or else one that is refused; None if it cannot be read.

    GROUP BY ? counts the columns up, LIMIT ? is 10; elsewhere numbers are tried before texts.
    """
    for word in EXPLAINED:
        shape = shape.removeprefix(word)
    try:
        tree = sqlglot.parse_one(shape, read=READ[dialect])
    except SqlglotError:
        return None
    _fill_places(tree)
    first = None
    try:
        types: Sequence[str] = gate.describe(tree.sql("duckdb"), principal).parameters
    except SqlanonError:  # as of a date in an interval: what kind it is, is then guessed from where it stands
        types = ()
    for number, text in [(2, text) for text in TEXTS] + [(None, text) for text in TEXTS]:
        sql = _filled(tree, number, text, types).sql("duckdb")
        first = first or sql
        try:
            gate.prepare(sql, principal)
        except SqlanonError:
            continue
        return sql
    return first


def _fill_places(tree: exp.Expr) -> None:
    for group in tree.find_all(exp.Group):
        for place, node in enumerate(group.expressions, start=1):
            if isinstance(node, exp.Placeholder):
                node.replace(exp.Literal.number(place))
    for ordered in tree.find_all(exp.Ordered):
        if isinstance(ordered.this, exp.Placeholder) and not isinstance(ordered.find_ancestor(exp.Window), exp.Window):
            ordered.this.replace(exp.Literal.number(1))
    for bound in tree.find_all(exp.Limit, exp.Offset):
        if isinstance(bound.expression, exp.Placeholder):
            bound.expression.replace(exp.Literal.number(10 if isinstance(bound, exp.Limit) else 0))


def _filled(tree: exp.Expr, number: int | None, text: str, types: Sequence[str]) -> exp.Expr:
    """Literals of these types, in the order in which parameters are numbered. Without types: numbers where a number is
    likely, texts elsewhere; texts everywhere if there is no number."""
    known = iter(types)

    def filled(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Placeholder):
            return node
        kind = next(known, "")
        if kind in LITERALS:
            return (SHARE if _is_share(node) else LITERALS[kind]).copy()
        if kind:
            return exp.Literal.string(text)
        if isinstance(node.parent, exp.Interval):
            return exp.Literal.string("1")
        if isinstance(node.parent, exp.Cast) and node.parent.is_type("date", "timestamp"):
            return exp.Literal.string("2025-07-01")
        if _is_share(node):
            return SHARE.copy()
        return exp.Literal.string(text) if number is None or _is_text(node) else exp.Literal.number(number)

    return tree.copy().transform(filled)


def _is_share(node: exp.Placeholder) -> bool:
    return isinstance(node.parent, exp.PercentileCont | exp.PercentileDisc | exp.Quantile | exp.ApproxQuantile)


def _is_text(node: exp.Placeholder) -> bool:
    return isinstance(
        node.parent, exp.Like | exp.ILike | exp.SimilarTo | exp.RegexpLike | exp.DPipe | exp.TimestampTrunc
    )


def split_statements(text: str) -> list[str] | None:
    """The statements of a file, each ended by a semicolon; None if a quote or comment is not closed.

    >>> split_statements("SELECT ';'; SELECT 2;")
    ["SELECT ';'", 'SELECT 2']
    """
    try:
        tokens = tokenize(text, "duckdb")
    except SqlglotError:
        return None
    found: list[str] = []
    start: int | None = None
    end = 0
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            found += [text[start:end]] if start is not None else []
            start = None
        else:
            start, end = token.start if start is None else start, token.end + 1
    return found + ([text[start:end]] if start is not None else [])


def shapes_of(records: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Different shapes in records of the audit log, each with who asked; only of answers that cost something.

    >>> shapes_of([{"kind": "dp", "shape": "SELECT ?", "principal": "ann"}, {"kind": "plain", "shape": "SELECT a"}])
    [('SELECT ?', 'ann')]
    """
    found = (
        (str(record.get("shape", "")), str(record.get("principal", "")))
        for record in records
        if record.get("kind") == "dp" and record.get("shape")
    )
    return list(dict.fromkeys(found))
