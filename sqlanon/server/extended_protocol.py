"""The extended protocol: statements are parsed, bound to their parameters, described and executed one by one."""

from __future__ import annotations

from sqlanon.errors import Refused
from sqlanon.pgwire import backend, frontend
from sqlanon.server.commands import Copy
from sqlanon.server.portals import PreparedStatement, spread_formats
from sqlanon.server.quotas import decode_parameters, weight
from sqlanon.server.run_command import describe_command, read_statement, run_portal, split_statements
from sqlanon.server.session_state import SessionState


async def parse(session: SessionState, message: frontend.Parse) -> None:
    if message.name and message.name in session.prepared:
        raise Refused("a prepared statement of this name exists already", sqlstate="42P05")
    found = await split_statements(session, message.sql)
    if len(found) > 1:
        raise Refused("cannot insert multiple commands into a prepared statement", sqlstate="42601")
    session.prepared.pop("", None) if not message.name else None
    command = await read_statement(session, found[0]) if found else None
    described = await describe_command(session, command, message.types)
    session.keep_statement(message.name, PreparedStatement(message.sql, command, described))
    session.connection.put(backend.parse_complete())


async def bind(session: SessionState, message: frontend.Bind) -> None:
    prepared = session.statement(message.statement)
    wanted = prepared.described.parameters
    if len(message.values) != len(wanted):
        raise frontend.ProtocolError(
            "08P01", f"bind message supplies {len(message.values)} parameters, but {len(wanted)} are needed"
        )
    if message.portal and message.portal in session.portals:
        raise Refused("a cursor of this name exists already", sqlstate="42P03")
    if len(message.formats) > 1 and len(message.formats) != len(wanted):
        raise frontend.ProtocolError("08P01", "there must be one format for each parameter, or one for all")
    session.portals.pop("", None) if not message.portal else None
    values = await decode_parameters(wanted, spread_formats(message.formats, len(wanted)), message.values)
    columns = prepared.described.columns
    copied = isinstance(prepared.command, Copy)
    result = () if copied else spread_formats(message.result_formats if columns else (), len(columns))
    portal = session.make_portal(prepared.command, prepared.described, values, result)
    portal.weight = weight(wanted, message.values)
    session.keep_portal(message.portal, portal)
    session.connection.put(backend.bind_complete())


def describe(session: SessionState, message: frontend.Describe) -> None:
    if message.kind == "S":
        prepared = session.statement(message.name)
        session.connection.put(backend.parameter_description(prepared.described.parameters))
        columns, command = prepared.described.columns, prepared.command
        formats: tuple[int, ...] = ()
    else:
        portal = session.portal(message.name)
        columns, formats, command = portal.columns, portal.formats, portal.command
    if columns and not isinstance(command, Copy):
        session.connection.put(backend.row_description(columns, spread_formats(formats, len(columns))))
    else:
        session.connection.put(backend.no_data())


async def execute(session: SessionState, message: frontend.Execute) -> None:
    portal = session.portal(message.portal)
    if portal.command is None:
        session.connection.put(backend.empty_query())
        return
    if session.status == "E" and getattr(portal.command, "verb", "") not in ("commit", "rollback", "rollback to"):
        raise Refused(
            "current transaction is aborted, commands ignored until end of transaction block", sqlstate="25P02"
        )
    await run_portal(session, portal, message.limit or None)
