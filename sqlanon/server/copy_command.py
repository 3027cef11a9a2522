"""COPY (query) TO STDOUT: the query, and how its rows are written."""

from __future__ import annotations

from typing import Any

from sqlanon.errors import Refused
from sqlanon.server.work_messages import CopyOptions
from sqlanon.sqlfront.lexer import Statement, statements


def read_copy(statement: Statement, place: int) -> tuple[Statement, CopyOptions, bool, int]:
    """What stands after COPY: a query in brackets or a table, TO STDOUT, and options, in both spellings."""
    inner, place = _source(statement, place)
    direction = statement.word(place)
    if direction == "from":
        raise Refused("COPY … FROM is not answered", sqlstate="25006", hint="this server changes no data")
    if direction != "to" or statement.word(place + 1) != "stdout":
        hint = "COPY (SELECT …) TO STDOUT is answered; files and programs of the server are not"
        raise Refused("COPY writes to STDOUT alone", sqlstate="42501", hint=hint)
    found, place = _options(statement, place + 2)
    header = bool(found.pop("header", False))
    return inner, CopyOptions(**found), header, place


def _source(statement: Statement, place: int) -> tuple[Statement, int]:
    tokens = statement.tokens
    if place < len(tokens) and tokens[place].value == "(" and tokens[place].kind == "symbol":
        end = _closing(statement, place)
        if end == place + 1:
            raise _wrong(statement, end)
        text = statement.text[tokens[place].end : tokens[end].start]
        return statements(text)[0], end + 1
    start, columns = place, "*"
    while place < len(tokens) and tokens[place].kind in ("word", "quoted"):
        place += 1
        if place < len(tokens) and tokens[place].value == ".":
            place += 1
        else:
            break
    if place == start:
        raise _wrong(statement, place)
    table = statement.text[tokens[start].start : tokens[place - 1].end]
    if place < len(tokens) and tokens[place].value == "(":
        end = _closing(statement, place)
        columns = statement.text[tokens[place].end : tokens[end].start]
        place = end + 1
    # The text is the analyst's own, and is read as such again.
    return statements(f"SELECT {columns} FROM {table}")[0], place


def _closing(statement: Statement, place: int) -> int:
    depth = 0
    for at in range(place, len(statement.tokens)):
        token = statement.tokens[at]
        if token.kind == "symbol":
            depth += {"(": 1, ")": -1}.get(token.value, 0)
        if depth == 0:
            return at
    raise _wrong(statement, len(statement.tokens))


def _options(statement: Statement, place: int) -> tuple[dict[str, Any], int]:
    tokens = statement.tokens
    found: dict[str, Any] = {}
    if statement.word(place) == "with":
        place += 1
    if place < len(tokens) and tokens[place].value == "(" and tokens[place].kind == "symbol":
        place += 1
        while True:
            name = statement.word(place)
            place += 1
            value = None
            if place < len(tokens) and tokens[place].value not in (",", ")"):
                value = tokens[place].value
                place += 1
            _put(found, name, value)
            if place >= len(tokens) or tokens[place].value not in (",", ")"):
                raise _wrong(statement, place)
            place += 1
            if tokens[place - 1].value == ")":
                return _checked(found), place
    while place < len(tokens):  # the spelling before version 9
        name = statement.word(place)
        place += 1
        if name in ("csv", "binary", "text"):
            _put(found, "format", name)
        elif name == "header":
            _put(found, "header", None)
        elif name in ("delimiter", "null", "quote", "escape"):
            if statement.word(place) == "as":
                place += 1
            if place >= len(tokens) or tokens[place].kind != "string":
                raise _wrong(statement, place)
            _put(found, name, tokens[place].value)
            place += 1
        else:
            raise _wrong(statement, place - 1)
    return _checked(found), place


def _put(found: dict[str, Any], name: str, value: str | None) -> None:
    if name in found:
        raise Refused("conflicting or redundant options", sqlstate="42601")
    if name == "format" and value in ("text", "csv", "binary"):
        found["format"] = value
    elif name == "header" and (value is None or value.lower() in ("true", "on", "1", "false", "off", "0")):
        found["header"] = value is None or value.lower() in ("true", "on", "1")
    elif name in ("delimiter", "quote", "escape") and value is not None:
        if len(value) != 1 or not value.isascii() or value in "\r\n":
            raise Refused(f"COPY {name} must be a single one-byte character", sqlstate="0A000")
        found[name] = value
    elif name == "null" and value is not None:
        if "\n" in value or "\r" in value:
            raise Refused("COPY null representation cannot use newline or carriage return", sqlstate="22023")
        found["null"] = value
    elif name == "encoding" and value is not None and value.lower().replace("-", "") == "utf8":
        pass
    else:
        raise Refused(f'COPY option "{name[:40]}" is not answered', sqlstate="0A000")


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    form = found.get("format", "text")
    if form == "binary" and set(found) - {"format"}:
        raise Refused("a binary COPY takes no other options", sqlstate="42601")
    if form == "text" and {"quote", "escape"} & set(found):
        raise Refused("COPY quote and escape are for the format csv", sqlstate="0A000")
    return found


def _wrong(statement: Statement, place: int) -> Refused:
    if place >= len(statement.tokens):
        return Refused("syntax error at end of input", sqlstate="42601", position=len(statement.text) + 1)
    token = statement.tokens[place]
    near = statement.text[token.start : token.end][:40]
    return Refused(f'syntax error at or near "{near}"', sqlstate="42601", position=token.start + 1)
