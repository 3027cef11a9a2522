"""Answers on their way to a client: as they come, in pieces as they are fetched, or as COPY writes them."""

from __future__ import annotations

import struct
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from sqlanon.errors import Refused
from sqlanon.pgwire import backend
from sqlanon.pgwire.copy_frames import copy_begin, copy_end
from sqlanon.server.catalog_cache import AnswerStream
from sqlanon.server.commands import Copy, Declare, Question
from sqlanon.server.portals import Portal, Spool
from sqlanon.server.session_state import SessionState
from sqlanon.server.work_messages import Failed


async def send_rows(session: SessionState, portal: Portal, limit: int | None) -> None:
    if portal.spool is None and portal.finished:
        session.connection.put(backend.command_complete("SELECT 0"))
        return
    if limit is None and portal.spool is None:
        await _streamed(session, portal)
        return
    spool = await rows_of(session, portal)
    data, taken = spool.take(limit)
    session.connection.put(data)
    if spool.done and (limit is None or taken < limit):
        portal.finished = True
        session.connection.put(backend.command_complete(f"SELECT {taken}"))
    else:
        session.connection.put(backend.portal_suspended())


async def _streamed(session: SessionState, portal: Portal) -> None:
    """All rows at once, as they come from the worker; the client's pace is the worker's."""
    rows = 0
    portal.finished = True  # also if it fails: what was paid for is not asked again under the same portal
    async with _running(session, portal) as running:
        async for chunk in running.chunks():
            rows += len(chunk.ends)
            session.connection.put(chunk.data)
            if len(chunk.data) > 8192:
                await session.connection.flush()
        summary = running.summary
    session.notice(summary)
    session.connection.put(backend.command_complete(f"SELECT {rows}"))


async def send_copy(session: SessionState, portal: Portal) -> None:
    assert isinstance(portal.command, Copy)
    if portal.finished:
        raise Refused("this portal has been run", sqlstate="55000")
    portal.finished = True
    chosen = portal.command.options
    more = {"delimiter": chosen.delimiter, "null": chosen.null, "escape": chosen.escape}
    rows = 0
    async with _running(session, portal) as running:
        columns = (await running.described()).columns
        session.connection.put(backend.copy_out_response(int(chosen.format == "binary"), len(columns)))
        binary = chosen.format == "binary"
        begin = copy_begin(columns, chosen.format, header=portal.command.header, quote=chosen.quote, **more)
        async for chunk in running.chunks():
            rows += len(chunk.ends)
            session.connection.put(with_head(begin, chunk.data) if binary else begin + chunk.data)
            begin = b""
            await session.connection.flush()
        summary = running.summary
    end = copy_end(chosen.format)
    session.connection.put((with_head(begin, end) if binary else begin + end) + backend.copy_done())
    session.notice(summary)
    session.connection.put(backend.command_complete(f"COPY {rows}"))


async def rows_of(session: SessionState, portal: Portal) -> Spool:
    """The rows of a portal or cursor: asked for once, and after a change of the policy only if they may be seen."""
    version = session.door.current.number
    if portal.spool is None:
        portal.spool = await _spooled(session, portal)
    elif portal.version != version:
        assert portal.ask is not None
        question = question_of(portal)
        try:
            await session.door.describe(portal.caller, question, portal.ask.types, session.left(question))
        except Failed:
            portal.spool, portal.finished = None, True
            raise
    portal.version = version
    return portal.spool


async def _spooled(session: SessionState, portal: Portal) -> Spool:
    """The whole answer, kept in the server: it is paid for once."""
    spool = Spool(portal.columns, portal.formats, session.spools)
    async with _running(session, portal) as running:
        async for chunk in running.chunks():
            spool.add(chunk)
        summary = running.summary
    session.notice(summary)
    return spool


def _running(session: SessionState, portal: Portal) -> AbstractAsyncContextManager[AnswerStream]:
    assert portal.ask is not None
    question = question_of(portal)
    return session.door.run(portal.caller, question, replace(portal.ask, timeout=session.left(question)))


def question_of(portal: Portal) -> Question:
    command = portal.command
    if isinstance(command, Question):
        return command
    assert isinstance(command, Copy | Declare)
    return command.question


def with_head(head: bytes, data: bytes) -> bytes:
    """The signature of a binary COPY goes into the message of the first row, where clients look for it."""
    if not head:
        return data
    (length,) = struct.unpack_from("!i", data, 1)
    return data[:1] + struct.pack("!i", length + len(head) - 5) + head[5:] + data[5:]
