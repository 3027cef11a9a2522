"""Statements of owners, read from the tokens of PostgreSQL. What is not written in one of these ways is no statement of
an owner; what is, but is wrong in its details, is refused."""

from __future__ import annotations

from typing import Any, NoReturn

from sqlanon.ddl.hana_view import read_hana_view
from sqlanon.ddl.names import join_name
from sqlanon.ddl.owner_words import PROVIDER, names_catalog
from sqlanon.ddl.source_query import read_source
from sqlanon.ddl.statements import (
    ChangeGateway,
    ChangeRole,
    CreateSchema,
    CreateView,
    DropView,
    Label,
    LookUp,
    OwnerStatement,
    RefreshView,
    SetOption,
)
from sqlanon.ddl.yaml_values import read_value
from sqlanon.errors import Refused
from sqlanon.sqlfront.command_reader import CommandReader
from sqlanon.sqlfront.lexer import Statement

HINT = "write sqlanon.NAME = value; 'sqlanon explain' and the guide 'owner_sql' list the names"


def read_statement(statement: Statement) -> OwnerStatement:
    """One statement of an owner. Raises Refused for what is not one, or not whole."""
    reader = CommandReader(statement)
    if names_catalog(statement) and statement.word(0) == "select":
        return LookUp(statement.text)
    explain = reader.take("explain")
    if reader.take("create", "materialized", "view"):
        return _create(reader, explain=explain, replace=False)
    if reader.take("create", "or", "replace", "materialized", "view"):
        return _create(reader, explain=explain, replace=True)
    replace = reader.take("create", "or", "replace", "view")
    if replace or reader.take("create", "view"):
        return read_hana_view(reader, explain=explain, replace=replace)
    if explain:
        raise Refused("EXPLAIN CREATE takes a MATERIALIZED VIEW", sqlstate="0A000")
    made = _other(reader)
    reader.end()
    return made


def _other(reader: CommandReader) -> OwnerStatement:
    if reader.take("refresh", "materialized", "view"):
        reader.take("concurrently")
        return RefreshView(table_name(reader))
    if reader.take("refresh", "view"):  # as HANA writes it
        name = table_name(reader)
        if not reader.take("anonymization"):
            reader.wrong()
        return RefreshView(name)
    if reader.take("drop", "materialized", "view"):
        there = reader.take("if", "exists")
        name = table_name(reader)
        if not reader.take("cascade"):
            reader.take("restrict")
        return DropView(name, there)
    if reader.take("security", "label", "for"):
        return _label(reader)
    if reader.take("create", "schema"):
        reader.take("if", "not", "exists")
        return CreateSchema(reader.name())
    if reader.take("set") or reader.take("reset"):
        reader.place = 0
        return _set_option(reader)
    if reader.take("create", "role"):
        return ChangeRole("create", reader.name())
    if reader.take("drop", "role"):
        return ChangeRole("drop", reader.name())
    if reader.take("alter", "role"):
        role = None if reader.take("all") else reader.name()
        return ChangeRole("alter", role, *_setting(reader))
    if reader.take("alter", "database"):
        reader.name()  # there is one
        return ChangeGateway(*_setting(reader))
    raise _unknown(reader)


def _unknown(reader: CommandReader) -> Refused:
    word = reader.statement.word(0).upper()[:40]
    return Refused(
        f"{word} is not answered in this way",
        hint="owners label columns, create, refresh and drop materialized views, and alter roles",
        sqlstate="0A000", position=1,
    )  # fmt: skip


def table_name(reader: CommandReader) -> str:
    parts = [reader.name()]
    while reader.take("."):
        parts.append(reader.name())
    if len(parts) > 3:
        reader.wrong()
    return join_name(parts)


def _label(reader: CommandReader) -> Label:
    if reader.name() != PROVIDER:
        raise Refused("labels are kept for the provider sqlanon alone", sqlstate="22023", hint="write FOR sqlanon")
    if not reader.take("on"):
        reader.wrong()
    of_table = reader.take("table") or reader.take("view") or reader.take("materialized", "view")
    if not of_table and not reader.take("column"):
        raise Refused(
            "labels are on columns and tables", sqlstate="42809", hint="write ON COLUMN patients.age, or ON TABLE …"
        )
    parts = [reader.name()]
    while reader.take("."):
        parts.append(reader.name())
    column = None if of_table else parts.pop()
    if not 1 <= len(parts) <= 3:
        raise Refused("a column is named with its table", sqlstate="42601", hint="write ON COLUMN patients.age")
    if not reader.take("is"):
        reader.wrong()
    return Label(join_name(parts), column, None if reader.take("null") else string(reader))


def string(reader: CommandReader) -> str:
    token = reader.token
    if token is None or token.kind != "string":
        reader.wrong()
    reader.place += 1
    return token.value


def _set_option(reader: CommandReader) -> SetOption:
    """SET sqlanon.k = 5: an option of the views that are created after it, for clients that send no WITH."""
    reset = reader.take("reset")
    if not reset:
        reader.take("set")
        if not reader.take("session"):
            reader.take("local")
    name = option_name(reader)
    if reset:
        return SetOption(name, None)
    if not reader.take("=") and not reader.take("to"):
        reader.wrong()
    return SetOption(name, None if reader.take("default") else option_value(reader))


def _setting(reader: CommandReader) -> tuple[str, Any]:
    """SET sqlanon.name = value, or RESET sqlanon.name."""
    reset = reader.take("reset")
    if not reset and not reader.take("set"):
        reader.wrong()
    name = option_name(reader)
    if reset:
        return name, None
    if not reader.take("=") and not reader.take("to"):
        reader.wrong()
    return name, option_value(reader)


def option_name(reader: CommandReader) -> str:
    start = reader.token
    if not reader.take(PROVIDER, "."):
        found = start.value[:40] if start is not None else "nothing"
        raise Refused(f"there is no option '{found}'", hint=HINT, sqlstate="22023")
    return reader.name()


def option_value(reader: CommandReader) -> Any:
    """A number, true or false as such; a text stays one, whatever it holds, until its option says what it is."""
    token = reader.token
    if token is None or token.kind in ("parameter", "quoted"):
        reader.wrong()
    if token.kind == "string":
        reader.place += 1
        return token.value
    if token.kind == "word":
        reader.place += 1
        return {"true": True, "on": True, "false": False, "off": False}.get(token.value, token.value)
    text = reader.value()
    if not text.lstrip("-")[:1].isdigit() and not text.lstrip("-").startswith("."):
        reader.wrong()
    return read_value(text)


def read_options(reader: CommandReader) -> tuple[tuple[str, Any], ...]:
    """(sqlanon.name = value, …), in their order."""
    if not reader.take("("):
        reader.wrong()
    found: list[tuple[str, Any]] = []
    while True:
        name = option_name(reader)
        value = option_value(reader) if reader.take("=") else True
        found.append((name, value))
        if reader.take(")"):
            return tuple(found)
        if not reader.take(","):
            reader.wrong()


def _create(reader: CommandReader, *, explain: bool, replace: bool) -> CreateView:
    missing = reader.take("if", "not", "exists")
    name = table_name(reader)
    options = read_options(reader) if reader.take("with") else ()
    source: dict[str, str] = {}
    columns: tuple[str, ...] | None = None
    if reader.take("as"):
        source, columns = read_source(*_query(reader))
    publish = True
    if reader.take("with"):
        publish = not reader.take("no")
        if not reader.take("data"):
            reader.wrong()
    reader.end()
    return CreateView(name, options, source, columns, (), publish, missing, replace, explain)


def _query(reader: CommandReader) -> tuple[Statement, int, int]:
    """Where the query begins and ends: WITH [NO] DATA after it belongs to the view."""
    tokens, start = reader.tokens, reader.place
    values = [token.value if token.kind == "word" else "" for token in tokens]
    end = len(tokens)
    for tail in (["with", "data"], ["with", "no", "data"]):
        if values[-len(tail) :] == tail and end - len(tail) > start:
            end -= len(tail)
            break
    if start >= end:
        _no_query(reader)
    reader.place = end
    return reader.statement, start, end


def _no_query(reader: CommandReader) -> NoReturn:
    reader.place = len(reader.tokens)
    reader.wrong()
