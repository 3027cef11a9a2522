"""A session of the PostgreSQL protocol: messages in, messages out, and the state between them."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlanon.errors import Refused, SqlanonError
from sqlanon.proxy import backend, wire
from sqlanon.proxy.commands import Command, Copy, Declare, Question, understood
from sqlanon.proxy.commands import Execute as ExecuteCommand
from sqlanon.proxy.commands import Fetch as FetchCommand
from sqlanon.proxy.commands import Show as ShowCommand
from sqlanon.proxy.door import SHORTEST, Caller, Door
from sqlanon.proxy.keeping import Room, decoded, weight
from sqlanon.proxy.lasting import Answering
from sqlanon.proxy.lexing import Statement, statements
from sqlanon.proxy.portals import Portal, Prepared, Spool, spread
from sqlanon.proxy.rows import copy_begin, copy_end
from sqlanon.proxy.settings import Settings
from sqlanon.proxy.utilities import columns_of, obey
from sqlanon.proxy.work import Ask, CopyOptions, Described, Failed, Summary, failure_of

MAX_NAMED = 1_000  # prepared statements and portals of one session
# What may take its time, so that somebody may want to break it off. The others are done at once.
WAITING = (wire.Query, wire.Parse, wire.Execute)
FULL = 2**16  # bytes that wait to be sent: more is sent without being asked for
NO_COLUMNS = Described(columns=(), parameters=())


class Gone(Exception):
    """The client is no longer there."""


class Connection(Protocol):
    async def next(self) -> wire.Message: ...
    def put(self, data: bytes) -> None: ...
    async def flush(self) -> None: ...

    @property
    def unsent(self) -> int: ...  # bytes


@dataclass
class Session:
    connection: Connection
    door: Door
    caller: Caller
    settings: Settings
    still_allowed: Callable[[], bool] = lambda: True
    status: str = "I"  # idle, in a transaction, or in a failed one
    savepoints: list[str] = field(default_factory=list)
    prepared: dict[str, Prepared] = field(default_factory=dict)
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
        self._spools = Room(lambda: self.door.current.serve.limits.result, self.door.spools)

    # ---- the loop

    async def serve(self) -> None:
        self._report()
        self._ready()
        await self.connection.flush()
        while True:
            try:
                message = await self.connection.next()
            except wire.ProtocolError as error:
                if error.fatal:
                    raise
                await self._wrong(error, simple=error.kind in ("Q", "F", "S"))
                continue
            if isinstance(message, wire.Terminate):
                return
            if not self.still_allowed():
                self.fail(Refused("this role may no longer connect", sqlstate="57P01"), severity="FATAL")
                await self.connection.flush()
                return
            if self._skipping and not isinstance(message, wire.Sync):
                if isinstance(message, wire.Flush):
                    await self.connection.flush()  # the error is told
                continue
            await self._handled(message)

    async def _handled(self, message: wire.Message) -> None:
        try:
            if isinstance(message, WAITING):
                await self._cancellable(self._message(message))
            else:
                await self._message(message)
        except SqlanonError as error:
            await self._wrong(error, simple=isinstance(message, wire.Query | wire.Sync | wire.FunctionCall))

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

    async def _message(self, message: wire.Message) -> None:
        await self._answered(message)
        if self.connection.unsent > FULL:
            await self.connection.flush()
            await asyncio.sleep(0)  # others have their turn

    async def _answered(self, message: wire.Message) -> None:
        match message:
            case wire.Query():
                await self._simple(message.sql)
            case wire.Parse():
                self._began = time.monotonic()
                await self._parse(message)
                self._used += time.monotonic() - self._began
            case wire.Bind():
                await self._bind(message)
            case wire.Describe():
                self._describe(message)
            case wire.Execute():
                self._began = time.monotonic()
                await self._execute(message)
                self._used = 0.0
            case wire.Close():
                (self.prepared if message.kind == "S" else self.portals).pop(message.name, None)
                self.connection.put(backend.close_complete())
            case wire.Flush():
                await self.connection.flush()
            case wire.Sync():
                self._skipping, self._used = False, 0.0
                self._end_of_statement()
                self._ready()
                await self.connection.flush()
            case wire.CopyData() | wire.CopyDone() | wire.CopyFail():
                pass  # of a COPY that was refused: the client may have sent ahead
            case wire.FunctionCall():
                raise Refused("function calls of the protocol are not answered", sqlstate="0A000", hint="use SELECT")
            case _:
                raise wire.ProtocolError("08P01", "this message is not expected here", fatal=True)

    # ---- the simple protocol

    async def _simple(self, sql: str) -> None:
        found = await self._statements(sql)
        if not found:
            self.connection.put(backend.empty_query())
        for statement in found:
            self._began, self._used = time.monotonic(), 0.0
            command = await self._understood(statement)
            described = await self._describing(command, ())
            if described.parameters:
                raise Refused("there is no parameter $1", sqlstate="42P02")
            portal = self._portal(command, described, (), ())
            if portal.columns and not isinstance(command, Copy):
                formats = self.portal(command.cursor).formats if isinstance(command, FetchCommand) else ()
                self.connection.put(backend.row_description(portal.columns, spread(formats, len(portal.columns))))
            await self._run(portal, None)
            if len(found) > 1:
                await self.connection.flush()
                await asyncio.sleep(0)  # others have their turn
        self._end_of_statement()
        self._ready()
        await self.connection.flush()

    async def _statements(self, sql: str) -> list[Statement]:
        try:
            return statements(sql)
        except Refused as error:
            await self.door.refused(self._caller, sql, error)
            raise

    async def _understood(self, statement: Statement) -> Command:
        try:
            command = understood(statement)
        except Refused as error:
            await self.door.refused(self._caller, statement.text, error)
            raise
        ends = getattr(command, "verb", "") in ("commit", "rollback", "rollback to")
        if self.status == "E" and not ends:
            raise Refused(
                "current transaction is aborted, commands ignored until end of transaction block", sqlstate="25P02"
            )
        return command

    # ---- the extended protocol

    async def _parse(self, message: wire.Parse) -> None:
        if message.name and message.name in self.prepared:
            raise Refused("a prepared statement of this name exists already", sqlstate="42P05")
        found = await self._statements(message.sql)
        if len(found) > 1:
            raise Refused("cannot insert multiple commands into a prepared statement", sqlstate="42601")
        self.prepared.pop("", None) if not message.name else None
        command = await self._understood(found[0]) if found else None
        described = await self._describing(command, message.types)
        self.keep_statement(message.name, Prepared(message.sql, command, described))
        self.connection.put(backend.parse_complete())

    def keep_statement(self, name: str, prepared: Prepared) -> None:
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
        return await self.door.describe(self._caller, question, asked, self._left(question))

    def _left(self, question: Question) -> float:
        """Seconds that the statement may still take: to describe and to run it together it has one timeout."""
        longest = int(self.settings.get("statement_timeout")) / 1000
        used = self._used + time.monotonic() - self._began
        return max(SHORTEST, self.door.longest(question, longest or None) - used)

    async def _describing(self, command: Command | None, asked: Sequence[int]) -> Described:
        """What a command needs and gives; only questions ask a worker for it."""
        match command:
            case Question():
                return await self.describe(command, asked)
            case Copy():
                return await self.describe(command.question, asked)
            case Declare():
                inner = await self.describe(command.question, asked)
                return Described(columns=(), parameters=inner.parameters)
            case FetchCommand() | ExecuteCommand() | ShowCommand():
                return Described(columns=columns_of(self, command), parameters=())
        return NO_COLUMNS

    async def _bind(self, message: wire.Bind) -> None:
        prepared = self._statement(message.statement)
        wanted = prepared.described.parameters
        if len(message.values) != len(wanted):
            raise wire.ProtocolError(
                "08P01", f"bind message supplies {len(message.values)} parameters, but {len(wanted)} are needed"
            )
        if message.portal and message.portal in self.portals:
            raise Refused("a cursor of this name exists already", sqlstate="42P03")
        if len(message.formats) > 1 and len(message.formats) != len(wanted):
            raise wire.ProtocolError("08P01", "there must be one format for each parameter, or one for all")
        self.portals.pop("", None) if not message.portal else None
        values = await decoded(wanted, spread(message.formats, len(wanted)), message.values)
        columns = prepared.described.columns
        copied = isinstance(prepared.command, Copy)
        result = () if copied else spread(message.result_formats if columns else (), len(columns))
        portal = self._portal(prepared.command, prepared.described, values, result)
        portal.weight = weight(wanted, message.values)
        self.keep_portal(message.portal, portal)
        self.connection.put(backend.bind_complete())

    def _portal(
        self, command: Command | None, described: Described, values: tuple[Any, ...], formats: tuple[int, ...]
    ) -> Portal:
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
            epsilon=float(epsilon) if epsilon else None, timeout=self._left(question),
            dry_run=self.settings.get("sqlanon.dry_run") == "on",
            settings=self.settings.all() if question.route == "catalogue" else (),
        )  # fmt: skip

    @property
    def _caller(self) -> Caller:
        simulated = self.settings.get("sqlanon.simulate") or None
        return Caller(self.caller.principal, self.caller.session, self.caller.door, simulated)

    def _describe(self, message: wire.Describe) -> None:
        if message.kind == "S":
            prepared = self._statement(message.name)
            self.connection.put(backend.parameter_description(prepared.described.parameters))
            columns, command = prepared.described.columns, prepared.command
            formats: tuple[int, ...] = ()
        else:
            portal = self.portal(message.name)
            columns, formats, command = portal.columns, portal.formats, portal.command
        if columns and not isinstance(command, Copy):
            self.connection.put(backend.row_description(columns, spread(formats, len(columns))))
        else:
            self.connection.put(backend.no_data())

    async def _execute(self, message: wire.Execute) -> None:
        portal = self.portal(message.portal)
        if portal.command is None:
            self.connection.put(backend.empty_query())
            return
        if self.status == "E" and getattr(portal.command, "verb", "") not in ("commit", "rollback", "rollback to"):
            raise Refused(
                "current transaction is aborted, commands ignored until end of transaction block", sqlstate="25P02"
            )
        await self._run(portal, message.limit or None)

    def _statement(self, name: str) -> Prepared:
        if name not in self.prepared:
            raise Refused(f'prepared statement "{name[:63]}" does not exist', sqlstate="26000")
        return self.prepared[name]

    def portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise Refused(f'cursor "{name[:63]}" does not exist', sqlstate="34000")
        return self.portals[name]

    # ---- running

    async def _run(self, portal: Portal, limit: int | None) -> None:
        command = portal.command
        if portal.cursor:
            raise Refused("a cursor of SQL is read with FETCH", sqlstate="55000")
        if isinstance(command, Question):
            await self._rows(portal, limit)
        elif isinstance(command, Copy):
            await self._copy(portal)
        elif command is not None:
            await obey(self, command, portal)
        self._report()

    async def _rows(self, portal: Portal, limit: int | None) -> None:
        if portal.spool is None and portal.finished:
            self.connection.put(backend.command_complete("SELECT 0"))
            return
        if limit is None and portal.spool is None:
            await self._streamed(portal)
            return
        spool = await self.rows_of(portal)
        data, taken = spool.take(limit)
        self.connection.put(data)
        if spool.done and (limit is None or taken < limit):
            portal.finished = True
            self.connection.put(backend.command_complete(f"SELECT {taken}"))
        else:
            self.connection.put(backend.portal_suspended())

    async def _streamed(self, portal: Portal) -> None:
        """All rows at once, as they come from the worker; the client's pace is the worker's."""
        rows = 0
        portal.finished = True  # also if it fails: what was paid for is not asked again under the same portal
        async with self._running(portal) as running:
            async for chunk in running.chunks():
                rows += len(chunk.ends)
                self.connection.put(chunk.data)
                if len(chunk.data) > 8192:
                    await self.connection.flush()
            summary = running.summary
        self.notice(summary)
        self.connection.put(backend.command_complete(f"SELECT {rows}"))

    async def run_prepared(self, prepared: Prepared, values: tuple[Any, ...], formats: tuple[int, ...]) -> None:
        """EXECUTE of SQL: a statement that was prepared under a name, with its values."""
        await self._rows(self._portal(prepared.command, prepared.described, values, formats), None)

    async def _copy(self, portal: Portal) -> None:
        assert isinstance(portal.command, Copy)
        if portal.finished:
            raise Refused("this portal has been run", sqlstate="55000")
        portal.finished = True
        chosen = portal.command.options
        more = {"delimiter": chosen.delimiter, "null": chosen.null, "escape": chosen.escape}
        rows = 0
        async with self._running(portal) as running:
            columns = (await running.described()).columns
            self.connection.put(backend.copy_out_response(int(chosen.format == "binary"), len(columns)))
            binary = chosen.format == "binary"
            begin = copy_begin(columns, chosen.format, header=portal.command.header, quote=chosen.quote, **more)
            async for chunk in running.chunks():
                rows += len(chunk.ends)
                self.connection.put(with_head(begin, chunk.data) if binary else begin + chunk.data)
                begin = b""
                await self.connection.flush()
            summary = running.summary
        end = copy_end(chosen.format)
        self.connection.put((with_head(begin, end) if binary else begin + end) + backend.copy_done())
        self.notice(summary)
        self.connection.put(backend.command_complete(f"COPY {rows}"))

    async def rows_of(self, portal: Portal) -> Spool:
        """The rows of a portal or cursor: asked for once, and after a change of the policy only if they may be seen."""
        version = self.door.current.number
        if portal.spool is None:
            portal.spool = await self._spooled(portal)
        elif portal.version != version:
            assert portal.ask is not None
            question = self._question(portal)
            try:
                await self.door.describe(portal.caller, question, portal.ask.types, self._left(question))
            except Failed:
                portal.spool, portal.finished = None, True
                raise
        portal.version = version
        return portal.spool

    async def _spooled(self, portal: Portal) -> Spool:
        """The whole answer, kept in the server: it is paid for once."""
        spool = Spool(portal.columns, portal.formats, self._spools)
        async with self._running(portal) as running:
            async for chunk in running.chunks():
                spool.add(chunk)
            summary = running.summary
        self.notice(summary)
        return spool

    def _running(self, portal: Portal) -> AbstractAsyncContextManager[Answering]:
        assert portal.ask is not None
        question = self._question(portal)
        return self.door.run(portal.caller, question, replace(portal.ask, timeout=self._left(question)))

    def _question(self, portal: Portal) -> Question:
        command = portal.command
        if isinstance(command, Question):
            return command
        assert isinstance(command, Copy | Declare)
        return command.question

    # ---- what the client is told

    def notice(self, summary: Summary | None) -> None:
        if summary is None or self.settings.get("client_min_messages").lower() in (
            "warning",
            "error",
            "fatal",
            "panic",
        ):
            return
        left = f"; {summary.left_epsilon:g} left" if summary.left_epsilon is not None else ""
        said = None
        if summary.kind == "synthetic":
            said = "made-up data: nothing is spent, and nothing is true"
        elif summary.kind == "dp" and summary.cached:
            said = f"the same answer as before: no epsilon spent{left}"
        elif summary.kind == "dp":
            said = f"epsilon {summary.epsilon:g} spent{left}"
        elif summary.kind == "controlled" and summary.withheld:
            said = f"{summary.withheld} groups are withheld"
        if said:
            self.connection.put(backend.notice_response("NOTICE", "00000", said))

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


def with_head(head: bytes, data: bytes) -> bytes:
    """The signature of a binary COPY goes into the message of the first row, where clients look for it."""
    if not head:
        return data
    (length,) = struct.unpack_from("!i", data, 1)
    return data[:1] + struct.pack("!i", length + len(head) - 5) + head[5:] + data[5:]


def error_bytes(error: Exception, severity: str = "ERROR") -> bytes:
    """An error as the protocol tells it; of what is not ours nothing but that it happened."""
    severity = "FATAL" if getattr(error, "fatal", False) else severity
    failure = failure_of(error)
    return backend.error_response(
        severity, failure.sqlstate, failure.message, failure.detail, failure.hint, failure.position
    )
