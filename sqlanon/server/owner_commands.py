"""SQL for owners over a connection: labels, views with privacy models, budgets, and relations of the schema sqlanon.

The server looks at the words of a statement alone. Who is an owner is asked each time; the statement is in the audit
log before a process of its own reads it, and no part of it reaches a database as written. For everybody else these
statements are what they always were: refused.
"""

from __future__ import annotations

from array import array

from sqlanon.ddl.owner_words import gives_rows, is_owner_statement, names_catalog, sets_option
from sqlanon.errors import Refused
from sqlanon.pgwire import backend, types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.server.commands import OwnerCommand, OwnerOption
from sqlanon.server.owner_process import OwnerAnswer
from sqlanon.server.portals import Portal, Spool, spread_formats
from sqlanon.server.session_state import SessionState
from sqlanon.server.work_messages import RowChunk
from sqlanon.sqlfront.explain_word import PLAN
from sqlanon.sqlfront.lexer import Statement

TYPES = {"bigint": types.INT8, "double precision": types.FLOAT8, "boolean": types.BOOL, "text": types.TEXT}
MOST_OPTIONS = 100


def owner_command(session: SessionState, statement: Statement) -> OwnerCommand | OwnerOption | None:
    """The command of a statement, if it is an owner's and an owner sends it."""
    if not is_owner_statement(statement) or not session.door.is_owner(session.asker):
        return None
    if (name := sets_option(statement)) is not None:
        return OwnerOption(name, statement.text if statement.word(0) == "set" else None)
    return OwnerCommand(
        statement.text, tuple(session.owner_options.values()), gives_rows(statement), names_catalog(statement)
    )


def set_option(session: SessionState, command: OwnerOption) -> None:
    if command.text is None:
        session.owner_options.pop(command.name, None)
    elif len(session.owner_options) >= MOST_OPTIONS:
        raise Refused("too many options are set", sqlstate="53400", hint="RESET ALL takes them back")
    else:
        session.owner_options[command.name] = command.text
    session.connection.put(backend.command_complete("RESET" if command.text is None else "SET"))


async def describe_owner(session: SessionState, command: OwnerCommand) -> tuple[ResultColumn, ...]:
    """What the rows will be; of a look-up it is known when it was made."""
    if not command.rows:
        return ()
    if not command.looks_up:
        return (ResultColumn(PLAN, types.TEXT),)
    answer = await session.door.run_owner(session.asker, command)
    session.looked_up = (command.text, answer)
    return _columns(answer)


async def run_owner(session: SessionState, portal: Portal, limit: int | None) -> None:
    command = portal.command
    assert isinstance(command, OwnerCommand)
    if portal.spool is None:
        if portal.finished:
            session.connection.put(backend.command_complete("SELECT 0"))
            return
        portal.finished = True
        answer = await _answer(session, command)
        for notice in answer.notices:
            session.connection.put(backend.notice_response("NOTICE", "00000", notice))
        if not command.rows:
            if session.status == "T":
                session.warn("25001", f"{answer.tag} took effect at once: ROLLBACK does not take it back")
            session.connection.put(backend.command_complete(answer.tag))
            return
        portal.spool = _spooled(session, portal, answer)
    data, taken = portal.spool.take(limit)
    session.connection.put(data)
    if portal.spool.done:
        session.connection.put(backend.command_complete(f"SELECT {taken}" if command.looks_up else "EXPLAIN"))
    else:
        session.connection.put(backend.portal_suspended())


async def _answer(session: SessionState, command: OwnerCommand) -> OwnerAnswer:
    """What the description found is taken once: whoever runs a statement again sees what is there then."""
    kept, session.looked_up = session.looked_up, None
    if command.looks_up and kept is not None and kept[0] == command.text:
        return kept[1]
    return await session.door.run_owner(session.asker, command)


def _columns(answer: OwnerAnswer) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(name, TYPES.get(kind, types.TEXT)) for name, kind in answer.columns)


def _spooled(session: SessionState, portal: Portal, answer: OwnerAnswer) -> Spool:
    columns = portal.columns
    formats = spread_formats(portal.formats, len(columns))
    spool = Spool(columns, formats, session.spools)
    data, ends = bytearray(), array("q")
    for row in answer.rows:
        cells = zip(columns, formats, row, strict=True)
        data += backend.data_row([types.encode(column.type, form, value) for column, form, value in cells])
        ends.append(len(data))
    spool.add(RowChunk(bytes(data), ends))
    return spool
