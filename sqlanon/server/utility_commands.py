"""Commands that the server obeys by itself: transactions, settings, cursors, prepared statements."""

from __future__ import annotations

import re

from sqlanon.errors import Refused
from sqlanon.pgcatalog.session_settings import spell_setting
from sqlanon.pgwire import backend, types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.pgwire.frontend import ProtocolError
from sqlanon.server.answers import rows_of, send_rows
from sqlanon.server.commands import (
    CloseCommand,
    Command,
    Copy,
    Deallocate,
    Declare,
    Discard,
    ExecuteCommand,
    Fetch,
    Nothing,
    Prepare,
    Reset,
    SelectSettings,
    Set,
    SettingCall,
    Show,
    Transaction,
)
from sqlanon.server.portals import Portal, PreparedStatement, spread_formats, type_named
from sqlanon.server.session_state import SessionState

BUDGET = (
    ResultColumn("principal", types.TEXT), ResultColumn("epsilon_spent", types.FLOAT8),
    ResultColumn("epsilon_left", types.FLOAT8), ResultColumn("delta_spent", types.FLOAT8),
    ResultColumn("delta_left", types.FLOAT8), ResultColumn("renews", types.TEXT),
)  # fmt: skip


async def obey(session: SessionState, command: Command, portal: Portal) -> None:
    put = session.connection.put
    match command:
        case Transaction():
            _transaction(session, command)
        case Set():
            _set(session, command)
            if command.local and session.status == "I":
                session.warn("25P01", "SET LOCAL can only be used in transaction blocks")
            put(backend.command_complete("SET"))
        case SelectSettings():
            _put_row(session, portal, [_call_setting(session, command, call) for call in command.calls])
            put(backend.command_complete("SELECT 1"))
        case Reset():
            if command.name == "all":
                session.settings.reset()
                session.owner_options.clear()
            else:
                session.settings.put(command.name, None)
            put(backend.command_complete("RESET"))
        case Show():
            await _show(session, command, portal)
        case Discard():
            _discard(session, command)
        case Declare():
            await _declare(session, command, portal)
        case Fetch():
            await _fetch(session, command, portal)
        case CloseCommand():
            _close(session, command)
        case Prepare():
            await _prepare(session, command)
        case ExecuteCommand():
            await _execute(session, command, portal)
        case Deallocate():
            _deallocate(session, command)
        case Nothing():
            put(backend.command_complete(command.tag))


def _call_setting(session: SessionState, command: SelectSettings, call: SettingCall) -> str | None:
    """What set_config() or current_setting() returns, once it has done its work."""
    name, *rest = command.given(call)
    if call.function == "set_config":
        if name is None:
            raise Refused("SET requires parameter name", sqlstate="22004")
        value, local = rest
        _set(session, Set(str(name), None if value is None else str(value), local in (True, "true")))
    elif name is None:
        return None
    try:
        return session.settings.show(str(name))
    except Refused:
        if call.function == "current_setting" and rest and rest[0] in (True, "true"):
            return None
        raise


def _set(session: SessionState, command: Set) -> None:
    session.settings.put(command.name, command.value, local=command.local)
    if command.name.lower() == "timezone" and command.value is not None and not _is_utc(command.value):
        session.warn("01000", "times are shown and read in UTC, whatever the time zone")


def _put_row(session: SessionState, portal: Portal, row: list[object]) -> None:
    formats = spread_formats(portal.formats, len(portal.columns))
    cells = [
        types.encode(column.type, form, value) for column, form, value in zip(portal.columns, formats, row, strict=True)
    ]
    session.connection.put(backend.data_row(cells))


def _is_utc(zone: str) -> bool:
    plain = zone.strip("'\" ").lower()
    if re.fullmatch(r"[+-]?0{1,2}(:00)?", plain):
        return True
    return plain in (
        "utc",
        "gmt",
        "etc/utc",
        "etc/gmt",
        "z",
        "zulu",
        "uct",
    )


def columns_of(
    session: SessionState, command: Fetch | ExecuteCommand | Show | SelectSettings
) -> tuple[ResultColumn, ...]:
    """What the rows of a command will be."""
    if isinstance(command, SelectSettings):
        return tuple(ResultColumn(call.label, types.TEXT) for call in command.calls)
    if isinstance(command, Show):
        if command.name.lower() == "sqlanon.budget":
            return BUDGET
        if command.name.lower() == "all":
            return (
                ResultColumn("name", types.TEXT),
                ResultColumn("setting", types.TEXT),
                ResultColumn("description", types.TEXT),
            )
        session.settings.get(command.name)
        return (ResultColumn(spell_setting(command.name), types.TEXT),)
    if isinstance(command, Fetch):
        return () if command.move else session.portal(command.cursor).columns
    return _named(session, command.name).described.columns


def _transaction(session: SessionState, command: Transaction) -> None:
    put, verb = session.connection.put, command.verb
    if verb == "begin":
        if session.status == "T":
            session.warn("25001", "there is already a transaction in progress")
        else:
            session.status = "T"
            session.settings.begin()
            isolation = command.isolation or session.settings.get("default_transaction_isolation")
            session.settings.put("transaction_isolation", isolation, local=True)
        put(backend.command_complete(command.name or "BEGIN"))
    elif verb in ("commit", "rollback"):
        if session.status == "I":
            if command.chain:
                raise Refused(f"{verb.upper()} AND CHAIN can only be used in transaction blocks", sqlstate="25P01")
            session.warn("25P01", "there is no transaction in progress")
        failed = session.status == "E"
        if verb == "commit" and not failed:
            session.settings.commit()
        else:
            session.settings.rollback()
        session.drop_portals()
        session.savepoints.clear()
        session.status = "I"
        if command.chain:
            session.status = "T"
            session.settings.begin()
        put(backend.command_complete("ROLLBACK" if failed else verb.upper()))
    else:
        _savepoint(session, command)


def _savepoint(session: SessionState, command: Transaction) -> None:
    points, verb, name = session.savepoints, command.verb, command.name[:63]  # as long as PostgreSQL's
    if session.status == "I":
        raise Refused(f"{verb.upper()} can only be used in transaction blocks", sqlstate="25P01")
    if verb == "savepoint":
        if len(points) >= 1_000:
            raise Refused("too many savepoints", sqlstate="53400")
        points.append(name)
        session.connection.put(backend.command_complete("SAVEPOINT"))
        return
    if name not in points:
        raise Refused(f'savepoint "{name}" does not exist', sqlstate="3B001")
    place = len(points) - 1 - points[::-1].index(name)
    if verb == "release":
        del points[place:]
        session.connection.put(backend.command_complete("RELEASE"))
    else:
        del points[place + 1 :]
        session.status = "T"
        session.connection.put(backend.command_complete("ROLLBACK"))


async def _show(session: SessionState, command: Show, portal: Portal) -> None:
    name = command.name.lower()
    rows: list[list[object]]
    if name == "sqlanon.budget":
        left = await session.door.left(session.caller.principal)
        renews = f"{left.renewal:%Y-%m-%d}" if left.renewal else "never"
        spent, rest = left.spent, left.left
        rows = [[session.caller.principal, spent.epsilon, rest.epsilon, spent.delta, rest.delta, renews]]
    elif name == "all":
        rows = [[setting, value, ""] for setting, value in session.settings.all()]
    else:
        rows = [[session.settings.show(command.name)]]
    for row in rows:
        _put_row(session, portal, row)
    session.connection.put(backend.command_complete("SHOW"))


def _discard(session: SessionState, command: Discard) -> None:
    if command.what == "all":
        if session.status != "I":
            raise Refused("DISCARD ALL cannot run inside a transaction block", sqlstate="25001")
        session.portals.clear()
        session.prepared = {name: each for name, each in session.prepared.items() if not name}
        session.owner_options.clear()
        session.settings.reset()
    session.connection.put(backend.command_complete(f"DISCARD {command.what.upper()}"))


async def _declare(session: SessionState, command: Declare, portal: Portal) -> None:
    if session.status == "I" and not command.hold:
        raise Refused("DECLARE CURSOR can only be used in transaction blocks", sqlstate="25P01", hint="BEGIN before it")
    if command.cursor in session.portals:
        raise Refused(f'cursor "{command.cursor[:63]}" already exists', sqlstate="42P03")
    assert portal.ask is not None
    described = await session.describe(command.question, portal.ask.types)
    formats = spread_formats((1,) if command.binary else (), len(described.columns))
    cursor = Portal(
        command, described.columns, formats, portal.ask, portal.route, hold=command.hold, cursor=True,
        caller=portal.caller, weight=portal.weight + 400 * len(described.columns) + len(command.question.text),
    )  # fmt: skip
    session.keep_portal(command.cursor, cursor)
    session.connection.put(backend.command_complete("DECLARE CURSOR"))


async def _fetch(session: SessionState, command: Fetch, portal: Portal) -> None:
    cursor = session.portal(command.cursor)
    if cursor.ask is None or isinstance(cursor.command, Copy) or cursor.finished:
        raise Refused(f'cursor "{command.cursor[:63]}" does not exist', sqlstate="34000")
    # A simple FETCH takes the cursor's own format, as BINARY CURSOR means it; a bound one says what it wants.
    formats = portal.formats if portal.formats else cursor.formats
    spool = await rows_of(session, cursor)
    if command.move:
        _, taken = spool.take(command.count)
        session.connection.put(backend.command_complete(f"MOVE {taken}"))
        return
    data, taken = await spool.taken_as(command.count, formats)
    session.connection.put(data)
    session.connection.put(backend.command_complete(f"FETCH {taken}"))


def _close(session: SessionState, command: CloseCommand) -> None:
    if command.cursor is None:
        session.portals = {name: portal for name, portal in session.portals.items() if not portal.cursor}
        session.connection.put(backend.command_complete("CLOSE CURSOR ALL"))
        return
    session.portal(command.cursor)
    del session.portals[command.cursor]
    session.connection.put(backend.command_complete("CLOSE CURSOR"))


def _named(session: SessionState, name: str) -> PreparedStatement:
    if not name or name not in session.prepared:
        raise Refused(f'prepared statement "{name[:63]}" does not exist', sqlstate="26000")
    return session.prepared[name]


async def _prepare(session: SessionState, command: Prepare) -> None:
    if command.name in session.prepared:
        raise Refused(f'prepared statement "{command.name[:63]}" already exists', sqlstate="42P05")
    oids = tuple(type_named(name) for name in command.types)
    described = await session.describe(command.question, oids)
    session.keep_statement(command.name, PreparedStatement(command.question.text, command.question, described))
    session.connection.put(backend.command_complete("PREPARE"))


async def _execute(session: SessionState, command: ExecuteCommand, portal: Portal) -> None:
    prepared = _named(session, command.name)
    wanted = prepared.described.parameters
    if len(command.arguments) != len(wanted):
        said = f'wrong number of parameters for prepared statement "{command.name[:63]}"'
        raise ProtocolError("42601", said)
    values = tuple(
        None if text is None else types.decode(types.by_oid(oid), 0, text.encode())
        for oid, text in zip(wanted, command.arguments, strict=True)
    )
    made = session.make_portal(prepared.command, prepared.described, values, portal.formats)
    await send_rows(session, made, None)


def _deallocate(session: SessionState, command: Deallocate) -> None:
    if command.name is None:
        session.prepared = {name: each for name, each in session.prepared.items() if not name}
        session.connection.put(backend.command_complete("DEALLOCATE ALL"))
        return
    _named(session, command.name)
    del session.prepared[command.name]
    session.connection.put(backend.command_complete("DEALLOCATE"))
