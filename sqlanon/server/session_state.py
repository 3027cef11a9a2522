"""What a session keeps between messages: settings, prepared statements, portals, and what its client knows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlanon.errors import Refused
from sqlanon.pgcatalog.session_settings import Settings
from sqlanon.pgwire import backend, frontend
from sqlanon.server.broker import SHORTEST, Caller, Door
from sqlanon.server.commands import Command, Copy, Declare, Question, SelectSettings
from sqlanon.server.notices import error_bytes, notice_of
from sqlanon.server.owner_process import OwnerAnswer
from sqlanon.server.portals import Portal, PreparedStatement
from sqlanon.server.quotas import Room
from sqlanon.server.work_messages import Ask, CopyOptions, Described, Summary

MAX_NAMED = 1_000  # prepared statements and portals of one session


class ClientChannel(Protocol):
    async def next(self) -> frontend.Message: ...
    def put(self, data: bytes) -> None: ...
    async def flush(self) -> None: ...

    @property
    def unsent(self) -> int: ...  # bytes


@dataclass
class SessionState:
    connection: ClientChannel
    door: Door
    caller: Caller
    settings: Settings
    process: int = 0  # as the client knows it: pg_backend_pid() says the same
    status: str = "I"  # idle, in a transaction, or in a failed one
    savepoints: list[str] = field(default_factory=list)
    prepared: dict[str, PreparedStatement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    owner_options: dict[str, str] = field(default_factory=dict)  # SET statements of an owner, by option
    looked_up: tuple[str, OwnerAnswer] | None = None  # what a description found, for the execution after it
    began: float = 0.0  # when the message began that is answered now
    used: float = 0.0  # seconds of the statement's messages before it
    _told: dict[str, str] = field(default_factory=dict)  # settings as the client knows them
    _settings_told: dict[str, str] | None = None

    def __post_init__(self) -> None:
        self.spools = Room(lambda: self.door.current.serve.limits.result, self.door.spools)

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
        return await self.door.describe(self.asker, question, asked, self.left(question))

    def left(self, question: Question) -> float:
        """Seconds that the statement may still take: to describe and to run it together it has one timeout."""
        longest = int(self.settings.get("statement_timeout")) / 1000
        used = self.used + time.monotonic() - self.began
        return max(SHORTEST, self.door.longest(question, longest or None) - used)

    def make_portal(
        self, command: Command | None, described: Described, values: tuple[Any, ...], formats: tuple[int, ...]
    ) -> Portal:
        if isinstance(command, SelectSettings):
            if len(values) < len(described.parameters):
                raise Refused(f"there is no parameter ${len(values) + 1}", sqlstate="42P02")
            command = replace(command, values=values)
        portal = Portal(command, described.columns, formats, caller=self.asker)
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
        epsilon, error = self.settings.get("sqlanon.epsilon"), self.settings.get("sqlanon.error")
        return self.door.ask(
            self.asker, question, parameters=values, types=oids, formats=formats, copy=copy,
            epsilon=float(epsilon) if epsilon else None, error=float(error) if error else None,
            timeout=self.left(question),
            dry_run=self.settings.get("sqlanon.dry_run") == "on",
            settings=self.settings.all() if question.route == "catalog" else (),
            process=self.process if question.route == "catalog" else 0,
        )  # fmt: skip

    @property
    def asker(self) -> Caller:
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

    # ---- what the client is told

    def notice(self, summary: Summary | None) -> None:
        said = notice_of(summary) if summary is not None else None
        if said and self.settings.get("client_min_messages").lower() not in ("warning", "error", "fatal", "panic"):
            self.connection.put(said)

    def warn(self, sqlstate: str, message: str) -> None:
        self.connection.put(backend.notice_response("WARNING", sqlstate, message))

    def fail(self, error: Exception, severity: str = "ERROR") -> None:
        self.connection.put(error_bytes(error, severity))

    def report_settings(self) -> None:
        """Settings that clients follow, where they changed."""
        if self._settings_told == self.settings.values:
            return
        self._settings_told = dict(self.settings.values)
        for name, value in self.settings.reported().items():
            if self._told.get(name) != value:
                self._told[name] = value
                self.connection.put(backend.parameter_status(name, value))

    def drop_portals(self) -> None:
        self.portals = {name: portal for name, portal in self.portals.items() if portal.hold}
