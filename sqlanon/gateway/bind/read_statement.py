"""From text to a tree: one statement, of bounded size, with its options and its parameters told apart."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sqlanon.errors import Refused, did_you_mean
from sqlanon.gateway.bind.parameters import with_slots
from sqlanon.gateway.bind.rewrite_shorthand import rewrite_shorthand
from sqlanon.gateway.bind.scalars import TESTED
from sqlanon.gateway.bind.values import ParameterSlot
from sqlanon.sqlfront.dialects import READ
from sqlanon.sqlfront.explain_word import Explain, split_explain
from sqlanon.sqlfront.limits import MAX_NODES, nested_too_deeply, require_text
from sqlanon.sqlfront.parse_trees import parse_trees
from sqlanon.sqlfront.parser_tokens import tokenize

__all__ = ["DIALECTS", "OPTIONS", "TESTED", "ParsedStatement", "parse_statement"]

DIALECTS = tuple(sorted(READ))
NEGATED = (exp.Is, exp.Like, exp.ILike)  # whose NOT newer parsers write into the node itself
# BigQuery's names for what a statement may set.
OPTIONS = ("epsilon", "delta", "max_rows_contributed", "max_groups_contributed", "privacy_unit_column")

# The parser makes a raw command of what it does not know, and warns: commands are refused here, in our own words.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


@dataclass(frozen=True)
class ParsedStatement:
    tree: exp.Expr
    explain: Explain
    options: Mapping[str, Any]
    slots: Mapping[str, ParameterSlot]  # its parameters, by name


def parse_statement(text: str, dialect: str, today: date | None = None) -> ParsedStatement:
    """Parse a statement. Whatever cannot be read is refused with a message that depends on the text alone.

    `today` is what CURRENT_DATE says; without it there is none.
    """
    require_text(text)
    explain, text = split_explain(text)
    try:
        tokens = tokenize(text, dialect)
    except SqlglotError:
        raise Refused("the statement cannot be read: a quote or comment is not closed", sqlstate="42601") from None
    options, text = _options(tokens, text)
    try:
        trees = parse_trees(text, READ[dialect])
    except Refused:
        raise
    except Exception as error:  # besides its own errors, the parser has others for what it half knows, as SHOW ALL
        raise Refused("syntax error", sqlstate="42601", position=_place(error, text)) from None
    found = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(found) != 1:
        raise Refused("exactly one statement is answered at a time", sqlstate="42601")
    tree = found[0]
    if not isinstance(tree, exp.Query | exp.Values):
        raise Refused(f"{_first_word(tokens)} is not answered", hint="only SELECT is", sqlstate="0A000")
    try:
        if sum(1 for _ in tree.walk()) > MAX_NODES:
            raise Refused("the statement is too long to be answered", sqlstate="54001")
        _name_functions(tree, text)
        _write_out_negations(tree)
        tree, slots = with_slots(tree)
        tree = rewrite_shorthand(tree, today)
        return ParsedStatement(tree, explain, options, slots)
    except RecursionError:
        raise nested_too_deeply() from None


def _name_functions(tree: exp.Expr, text: str) -> None:
    """Keep the names that functions are written with: the parser has one node for several of them.

    Comments are not kept: they would be written into the statements that an engine is sent.
    """
    for node in tree.walk():
        node.comments = None
        if isinstance(node, exp.Func | exp.Binary) and "start" in node.meta:
            node.meta["written"] = text[node.meta["start"] : node.meta["end"] + 1].strip('"').lower()
        elif type(node) is exp.GroupConcat:
            node.meta["written"] = "string_agg"  # the parser calls it as MySQL does, and forgets where it stood


def _write_out_negations(tree: exp.Expr) -> None:
    """NOT (a IS NULL) and NOT (a LIKE b), however they are written: the rules read no other negation."""
    for node in list(tree.find_all(*NEGATED)):
        if node.args.get("negate"):
            node.set("negate", None)
            negation = exp.Not()
            node.replace(negation)
            negation.set("this", node)


def _first_word(tokens: Sequence[Token]) -> str:
    return tokens[0].text.upper()[:40] if tokens else "an empty statement"


def _place(error: Exception, text: str) -> int | None:
    """Where the parser stopped, counted in characters from 1."""
    details = getattr(error, "errors", None)
    if not details or not details[0].get("line"):
        return None
    lines = text.splitlines(keepends=True)
    return sum(len(line) for line in lines[: details[0]["line"] - 1]) + max(1, details[0].get("col") or 1)


def _options(tokens: Sequence[Token], text: str) -> tuple[dict[str, Any], str]:
    """Read and blank out BigQuery's WITH DIFFERENTIAL_PRIVACY OPTIONS(…), which may stand after the first SELECT."""
    for place, token in enumerate(tokens[:-1]):
        words = [each.text.upper() for each in tokens[place : place + 3]]
        if token.token_type != TokenType.SELECT or words[1:] != ["WITH", "DIFFERENTIAL_PRIVACY"]:
            continue
        start, place = tokens[place + 1].start, place + 3
        options: dict[str, Any] = {}
        end = tokens[place - 1].end
        if place < len(tokens) and tokens[place].text.upper() == "OPTIONS":
            options, last = _option_list(tokens, place + 1)
            end = tokens[last].end
        blanked = text[:start] + " " * (end + 1 - start) + text[end + 1 :]
        return options, blanked
    return {}, text


def _option_list(tokens: Sequence[Token], place: int) -> tuple[dict[str, Any], int]:
    wrong = Refused("OPTIONS takes a list such as (epsilon = 0.5, delta = 1e-7)", sqlstate="42601")
    if place >= len(tokens) or tokens[place].token_type != TokenType.L_PAREN:
        raise wrong
    options: dict[str, Any] = {}
    place += 1
    while place < len(tokens) and tokens[place].token_type != TokenType.R_PAREN:
        if place + 2 >= len(tokens) or tokens[place + 1].token_type != TokenType.EQ:
            raise wrong
        name, value = tokens[place].text.lower(), tokens[place + 2]
        if name not in OPTIONS:
            known = did_you_mean(name, OPTIONS) or f"these are: {', '.join(OPTIONS)}"
            raise Refused(f"the option '{name[:40]}' is not answered", hint=known, position=tokens[place].start + 1)
        if name in options:
            raise Refused(f"the option '{name}' is given twice", sqlstate="42601")
        if name == "privacy_unit_column":
            options[name] = value.text
        elif value.token_type == TokenType.NUMBER:
            options[name] = float(value.text)
        else:
            raise Refused(f"the option '{name}' takes a number", sqlstate="22023", position=value.start + 1)
        place += 3
        if place < len(tokens) and tokens[place].token_type == TokenType.COMMA:
            place += 1
        elif place < len(tokens) and tokens[place].token_type != TokenType.R_PAREN:
            raise wrong
    if place >= len(tokens):
        raise wrong
    return options, place
