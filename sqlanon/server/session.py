"""A session of the PostgreSQL protocol: messages in, messages out, and the state between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlanon.errors import Refused, SqlanonError
from sqlanon.pgcatalog.session_settings import Settings
from sqlanon.pgwire import backend, frontend
from sqlanon.server import extended_protocol
from sqlanon.server.answers import copy, rows
from sqlanon.server.broker import SHORTEST, Caller, Door
from sqlanon.server.commands import Command, Copy, Declare, Question, SelectSettings, with_intervals
from sqlanon.server.commands import ExecuteCommand as ExecuteCommand
from sqlanon.server.commands import Fetch as FetchCommand
from sqlanon.server.commands import Show as ShowCommand
from sqlanon.server.notices import error_bytes, notice_of
from sqlanon.server.portals import Portal, PreparedStatement, spread_formats, type_named
from sqlanon.server.quotas import Room
from sqlanon.server.read_command import parse_command
from sqlanon.server.utility_commands import columns_of, obey
from sqlanon.server.work_messages import Ask, CopyOptions, Described, Summary
from sqlanon.sqlfront.lexer import Statement, statements

MAX_NAMED = 1_000  # prepared statements and portals of one session
# What may take its time, so that somebody may want to break it off. The others are done at once.
WAITING = (frontend.Query, frontend.Parse, frontend.Execute)
FULL = 2**16  # bytes that wait to be sent: more is sent without being asked for
NO_COLUMNS = Described(columns=(), parameters=())


class Gone(Exception):
    """The client is no longer there."""


class ClientChannel(Protocol):
    async def next(self) -> frontend.Message: ...
    def put(self, data: bytes) -> None: ...
    async def flush(self) -> None: ...

    @property
    def unsent(self) -> int: ...  # bytes


@dataclass
class Session:
    connection: ClientChannel
    door: Door
    caller: Caller
    settings: Settings
    still_allowed: Callable[[], bool] = lambda: True
    process: int = 0  # as the client knows it: pg_backend_pid() says the same
    status: str = "I"  # idle, in a transaction, or in a failed one
    savepoints: list[str] = field(default_factory=list)
    prepared: dict[str, PreparedStatement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    _active: asyncio.Task[None] | None = None
    _cancelled: bool = False
    _gone: bool = False
    _skipping: bool = False  # after an error in the extended protocol: up to the next Sync
    _told: dict[str, str] = field(default_factory=dict)  # settings as the client knows them
    _settings_told: dict[str, str] | None = None
    _settled: bool = False  # the client has been told that the statement is over
    _began: float = 0.0  # when the message began that is answered now
    _used: float = 0.0  # seconds of the statement's messages before it

    def __post_init__(self) -> None:
        self.spools = Room(lambda: self.door.current.serve.limits.result, self.door.spools)

    # ---- the loop

    async def serve(self) -> None:
        self._report()
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
                self._began = time.monotonic()
                await extended_protocol.parse(self, message)
                self._used += time.monotonic() - self._began
            case frontend.Bind():
                await extended_protocol.bind(self, message)
            case frontend.Describe():
                extended_protocol.describe(self, message)
            case frontend.Execute():
                self._began = time.monotonic()
                await extended_protocol.execute(self, message)
                self._used = 0.0
            case frontend.Close():
                (self.prepared if message.kind == "S" else self.portals).pop(message.name, None)
                self.connection.put(backend.close_complete())
            case frontend.Flush():
                await self.connection.flush()
            case frontend.Sync():
                self._skipping, self._used = False, 0.0
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
        found = await self.read(sql)
        if not found:
            self.connection.put(backend.empty_query())
        for statement in found:
            self._began, self._used = time.monotonic(), 0.0
            command = await self.understand(statement)
            described = await self.describing(command, ())
            if described.parameters:
                raise Refused("there is no parameter $1", sqlstate="42P02")
            portal = self.make_portal(command, described, (), ())
            if portal.columns and not isinstance(command, Copy):
                formats = self.portal(command.cursor).formats if isinstance(command, FetchCommand) else ()
                self.connection.put(
                    backend.row_description(portal.columns, spread_formats(formats, len(portal.columns)))
                )
            await self.run(portal, None)
            if len(found) > 1:
                await self.connection.flush()
                await asyncio.sleep(0)  # others have their turn
        self._end_of_statement()
        self._ready()
        await self.connection.flush()

    async def read(self, sql: str) -> list[Statement]:
        try:
            return statements(sql)
        except Refused as error:
            await self.door.refused(self._caller, sql, error)
            raise

    async def understand(self, statement: Statement) -> Command:
        try:
            command = parse_command(statement)
        except Refused as error:
            await self.door.refused(self._caller, statement.text, error)
            raise
        ends = getattr(command, "verb", "") in ("commit", "rollback", "rollback to")
        if self.status == "E" and not ends:
            raise Refused(
                "current transaction is aborted, commands ignored until end of transaction block", sqlstate="25P02"
            )
        return with_intervals(command) if self.settings.get("sqlanon.intervals") == "on" else command

    # ---- statements and portals

    def keep_statement(self, name: str, prepared: PreparedStatement) -> None:
        if len(self.prepared) >= MAX_NAMED or not self._room_for(len(name) + prepared.weight):
            raise Refused("too many prepared statements", sqlstate="53400", hint="close some of them")
        self.prepared[name] = prepared

    def keep_portal(self, name: str, portal: Portal) -> None:
        if len(self.portals) >= MAX_NAMED or not self._room_for(len(name) + portal.weight):
            raise Refused("too many open portals", sqlstate="53400", hint="close some of them")
        self.portals[name] = portal

    def _room_for(self, weight: int) -> bool:
        """Whether what a session keeps stays within bounds; a message as long as may be always does."""
        named = ((name, each.weight) for kept in (self.prepared, self.portals) for name, each in kept.items())
        held = sum(len(name) + each for name, each in named)
        return not held or held + weight <= 2 * self.door.current.serve.limits.message

    async def describe(self, question: Question, asked: Sequence[int]) -> Described:
        return await self.door.describe(self._caller, question, asked, self.left(question))

    def left(self, question: Question) -> float:
        """Seconds that the statement may still take: to describe and to run it together it has one timeout."""
        longest = int(self.settings.get("statement_timeout")) / 1000
        used = self._used + time.monotonic() - self._began
        return max(SHORTEST, self.door.longest(question, longest or None) - used)

    async def describing(self, command: Command | None, asked: Sequence[int]) -> Described:
        """What a command needs and gives; only questions ask a worker for it."""
        match command:
            case Question():
                return await self.describe(command, asked)
            case Copy():
                return await self.describe(command.question, asked)
            case Declare():
                inner = await self.describe(command.question, asked)
                return Described(columns=(), parameters=inner.parameters)
            case SelectSettings():
                oids = tuple(type_named(kind) for kind in command.parameters)
                return Described(columns=columns_of(self, command), parameters=oids)
            case FetchCommand() | ExecuteCommand() | ShowCommand():
                return Described(columns=columns_of(self, command), parameters=())
        return NO_COLUMNS

    def make_portal(
        self, command: Command | None, described: Described, values: tuple[Any, ...], formats: tuple[int, ...]
    ) -> Portal:
        if isinstance(command, SelectSettings):
            if len(values) < len(described.parameters):
                raise Refused(f"there is no parameter ${len(values) + 1}", sqlstate="42P02")
            command = replace(command, values=values)
        portal = Portal(command, described.columns, formats, caller=self._caller)
        if isinstance(command, Question | Copy | Declare):
            question = command if isinstance(command, Question) else command.question
            portal.route = question.route
            portal.ask = self.ask(
                question, values, described.parameters, formats, command.options if isinstance(command, Copy) else None
            )
        return portal

    def ask(
        self,
        question: Question,
        values: tuple[Any, ...],
        oids: tuple[int, ...],
        formats: tuple[int, ...],
        copy: CopyOptions | None,
    ) -> Ask:
        """A request for a worker, under the settings of the session."""
        epsilon = self.settings.get("sqlanon.epsilon")
        return self.door.ask(
            self._caller, question, parameters=values, types=oids, formats=formats, copy=copy,
            epsilon=float(epsilon) if epsilon else None, timeout=self.left(question),
            dry_run=self.settings.get("sqlanon.dry_run") == "on",
            settings=self.settings.all() if question.route == "catalogue" else (),
            process=self.process if question.route == "catalogue" else 0,
        )  # fmt: skip

    @property
    def _caller(self) -> Caller:
        simulated = self.settings.get("sqlanon.simulate") or None
        return Caller(self.caller.principal, self.caller.session, self.caller.door, simulated)

    def statement(self, name: str) -> PreparedStatement:
        if name not in self.prepared:
            raise Refused(f'prepared statement "{name[:63]}" does not exist', sqlstate="26000")
        return self.prepared[name]

    def portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise Refused(f'cursor "{name[:63]}" does not exist', sqlstate="34000")
        return self.portals[name]

    # ---- running

    async def run(self, portal: Portal, limit: int | None) -> None:
        command = portal.command
        if portal.cursor:
            raise Refused("a cursor of SQL is read with FETCH", sqlstate="55000")
        if isinstance(command, Question):
            await rows(self, portal, limit)
        elif isinstance(command, Copy):
            await copy(self, portal)
        elif command is not None:
            await obey(self, command, portal)
        self._report()

    async def run_prepared(
        self, prepared: PreparedStatement, values: tuple[Any, ...], formats: tuple[int, ...]
    ) -> None:
        """EXECUTE of SQL: a statement that was prepared under a name, with its values."""
        await rows(self, self.make_portal(prepared.command, prepared.described, values, formats), None)

    # ---- what the client is told

    def notice(self, summary: Summary | None) -> None:
        said = notice_of(summary) if summary is not None else None
        if said and self.settings.get("client_min_messages").lower() not in ("warning", "error", "fatal", "panic"):
            self.connection.put(said)

    def warn(self, sqlstate: str, message: str) -> None:
        self.connection.put(backend.notice_response("WARNING", sqlstate, message))

    def fail(self, error: Exception, severity: str = "ERROR") -> None:
        self.connection.put(error_bytes(error, severity))

    def _report(self) -> None:
        """Settings that clients follow, where they changed."""
        if self._settings_told == self.settings.values:
            return
        self._settings_told = dict(self.settings.values)
        for name, value in self.settings.reported().items():
            if self._told.get(name) != value:
                self._told[name] = value
                self.connection.put(backend.parameter_status(name, value))

    def _ready(self) -> None:
        self._settled = True
        self.connection.put(backend.ready_for_query(self.status.encode()))

    # ---- transactions

    def _end_of_statement(self) -> None:
        """Outside of a transaction every statement is one of its own: its portals end with it."""
        if self.status == "I":
            self.drop_portals()

    def drop_portals(self) -> None:
        self.portals = {name: portal for name, portal in self.portals.items() if portal.hold}
