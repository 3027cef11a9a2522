"""From the text of a statement to its answer: read it, describe it, run it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlanon.errors import Refused
from sqlanon.server.answers import send_copy, send_rows
from sqlanon.server.commands import (
    Command,
    Copy,
    Declare,
    ExecuteCommand,
    Fetch,
    OwnerCommand,
    OwnerOption,
    Question,
    SelectSettings,
    Show,
    with_intervals,
)
from sqlanon.server.owner_commands import describe_owner, owner_command, run_owner, set_option
from sqlanon.server.portals import Portal, type_named
from sqlanon.server.read_command import parse_command
from sqlanon.server.session_state import SessionState
from sqlanon.server.utility_commands import columns_of, obey
from sqlanon.server.work_messages import Described
from sqlanon.sqlfront.lexer import Statement, statements

NO_COLUMNS = Described(columns=(), parameters=())


async def split_statements(session: SessionState, sql: str) -> list[Statement]:
    try:
        return statements(sql)
    except Refused as error:
        await session.door.refused(session.asker, sql, error)
        raise


async def read_statement(session: SessionState, statement: Statement) -> Command:
    try:
        command = owner_command(session, statement) or parse_command(statement)
    except Refused as error:
        await session.door.refused(session.asker, statement.text, error)
        raise
    ends = getattr(command, "verb", "") in ("commit", "rollback", "rollback to")
    if session.status == "E" and not ends:
        raise Refused(
            "current transaction is aborted, commands ignored until end of transaction block", sqlstate="25P02"
        )
    return with_intervals(command) if session.settings.get("sqlanon.intervals") == "on" else command


async def describe_command(session: SessionState, command: Command | None, asked: Sequence[int]) -> Described:
    """What a command needs and gives; only questions ask a worker for it."""
    match command:
        case Question():
            return await session.describe(command, asked)
        case Copy():
            return await session.describe(command.question, asked)
        case Declare():
            inner = await session.describe(command.question, asked)
            return Described(columns=(), parameters=inner.parameters)
        case OwnerCommand():
            return Described(columns=await describe_owner(session, command), parameters=())
        case SelectSettings():
            oids = tuple(type_named(kind) for kind in command.parameters)
            return Described(columns=columns_of(session, command), parameters=oids)
        case Fetch() | ExecuteCommand() | Show():
            return Described(columns=columns_of(session, command), parameters=())
    return NO_COLUMNS


async def run_portal(session: SessionState, portal: Portal, limit: int | None) -> None:
    command = portal.command
    if portal.cursor:
        raise Refused("a cursor of SQL is read with FETCH", sqlstate="55000")
    if isinstance(command, Question):
        await send_rows(session, portal, limit)
    elif isinstance(command, OwnerCommand):
        await run_owner(session, portal, limit)
    elif isinstance(command, OwnerOption):
        set_option(session, command)
    elif isinstance(command, Copy):
        await send_copy(session, portal)
    elif command is not None:
        await obey(session, command, portal)
    session.report_settings()
