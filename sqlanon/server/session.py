"""A session of the PostgreSQL protocol: messages in, messages out, and the state between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sqlanon.errors import Refused, SqlanonError
from sqlanon.pgwire import backend, frontend
from sqlanon.server import extended_protocol
from sqlanon.server.commands import Copy, Fetch
from sqlanon.server.portals import spread_formats
from sqlanon.server.run_command import describe_command, read_statement, run_portal, split_statements
from sqlanon.server.session_state import SessionState

# What may take its time, so that somebody may want to break it off. The others are done at once.
WAITING = (frontend.Query, frontend.Parse, frontend.Execute)
FULL = 2**16  # bytes that wait to be sent: more is sent without being asked for


class Gone(Exception):
    """The client is no longer there."""


@dataclass
class Session(SessionState):
    still_allowed: Callable[[], bool] = lambda: True
    _active: asyncio.Task[None] | None = None
    _cancelled: bool = False
    _gone: bool = False
    _skipping: bool = False  # after an error in the extended protocol: up to the next Sync
    _settled: bool = False  # the client has been told that the statement is over

    # ---- the loop

    async def serve(self) -> None:
        self.report_settings()
        self._ready()
        await self.connection.flush()
        while True:
            try:
                message = await self.connection.next()
            except frontend.ProtocolError as error:
                if error.fatal:
                    raise
                await self._wrong(error, simple=error.kind in ("Q", "F", "S"))
                continue
            if isinstance(message, frontend.Terminate):
                return
            if not self.still_allowed():
                self.fail(Refused("this role may no longer connect", sqlstate="57P01"), severity="FATAL")
                await self.connection.flush()
                return
            if self._skipping and not isinstance(message, frontend.Sync):
                if isinstance(message, frontend.Flush):
                    await self.connection.flush()  # the error is told
                continue
            await self._handled(message)

    async def _handled(self, message: frontend.Message) -> None:
        try:
            if isinstance(message, WAITING):
                await self._cancellable(self._message(message))
            else:
                await self._message(message)
        except SqlanonError as error:
            await self._wrong(error, simple=isinstance(message, frontend.Query | frontend.Sync | frontend.FunctionCall))

    async def _wrong(self, error: Exception, *, simple: bool) -> None:
        """Tell an error. In the extended protocol all is skipped up to the next Sync."""
        if self._skipping and not simple:
            return
        self.fail(error)
        if getattr(error, "fatal", False):
            await self.connection.flush()
            raise Gone from None
        if self.status == "T":
            self.status = "E"
        if simple:
            self._skipping = False
            self._end_of_statement()
            self._ready()
            await self.connection.flush()
        else:
            self._skipping = True

    async def _cancellable(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a message so that a cancel request from elsewhere can end it."""
        self._cancelled = self._settled = False
        self._active = asyncio.ensure_future(work)
        try:
            await self._active
        except asyncio.CancelledError:
            if self._gone:
                raise Gone from None
            if not self._cancelled:
                raise
            raise Refused("canceling statement due to user request", sqlstate="57014") from None
        finally:
            self._active = None

    def cancel(self) -> None:
        """What a cancel request does: the statement that runs ends, the session goes on."""
        # One that comes when the end has been told is too late: the client would take it for the next statement's.
        if self._active is not None and not self._active.done() and not self._settled:
            self._cancelled = True
            self._active.cancel()

    def stop(self) -> None:
        """The client has gone: nobody waits for the statement that runs."""
        self._gone = True
        if self._active is not None:
            self._active.cancel()

    @property
    def busy(self) -> bool:
        return self._active is not None

    async def _message(self, message: frontend.Message) -> None:
        await self._answered(message)
        if self.connection.unsent > FULL:
            await self.connection.flush()
            await asyncio.sleep(0)  # others have their turn

    async def _answered(self, message: frontend.Message) -> None:
        match message:
            case frontend.Query():
                await self._simple(message.sql)
            case frontend.Parse():
                self.began = time.monotonic()
                await extended_protocol.parse(self, message)
                self.used += time.monotonic() - self.began
            case frontend.Bind():
                await extended_protocol.bind(self, message)
            case frontend.Describe():
                extended_protocol.describe(self, message)
            case frontend.Execute():
                self.began = time.monotonic()
                await extended_protocol.execute(self, message)
                self.used = 0.0
            case frontend.Close():
                (self.prepared if message.kind == "S" else self.portals).pop(message.name, None)
                self.connection.put(backend.close_complete())
            case frontend.Flush():
                await self.connection.flush()
            case frontend.Sync():
                self._skipping, self.used = False, 0.0
                self._end_of_statement()
                self._ready()
                await self.connection.flush()
            case frontend.CopyData() | frontend.CopyDone() | frontend.CopyFail():
                pass  # of a COPY that was refused: the client may have sent ahead
            case frontend.FunctionCall():
                raise Refused("function calls of the protocol are not answered", sqlstate="0A000", hint="use SELECT")
            case _:
                raise frontend.ProtocolError("08P01", "this message is not expected here", fatal=True)

    # ---- the simple protocol

    async def _simple(self, sql: str) -> None:
        found = await split_statements(self, sql)
        if not found:
            self.connection.put(backend.empty_query())
        for statement in found:
            self.began, self.used = time.monotonic(), 0.0
            command = await read_statement(self, statement)
            described = await describe_command(self, command, ())
            if described.parameters:
                raise Refused("there is no parameter $1", sqlstate="42P02")
            portal = self.make_portal(command, described, (), ())
            if portal.columns and not isinstance(command, Copy):
                formats = self.portal(command.cursor).formats if isinstance(command, Fetch) else ()
                self.connection.put(
                    backend.row_description(portal.columns, spread_formats(formats, len(portal.columns)))
                )
            await run_portal(self, portal, None)
            if len(found) > 1:
                await self.connection.flush()
                await asyncio.sleep(0)  # others have their turn
        self._end_of_statement()
        self._ready()
        await self.connection.flush()

    # ---- the end of a statement

    def _ready(self) -> None:
        self._settled = True
        self.connection.put(backend.ready_for_query(self.status.encode()))

    def _end_of_statement(self) -> None:
        """Outside of a transaction every statement is one of its own: its portals end with it."""
        if self.status == "I":
            self.drop_portals()
