"""The server: sockets, TLS, the start of a session, and what a stranger may use up before they log in."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import ssl
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field

from sqlanon.errors import Refused, SqlanonError
from sqlanon.pgcatalog.session_settings import Settings
from sqlanon.pgwire import backend, frontend, scram
from sqlanon.pgwire.tls import TlsContext
from sqlanon.server.broker import Caller, Door
from sqlanon.server.connection import Connection
from sqlanon.server.login_throttle import LoginThrottle
from sqlanon.server.notices import error_bytes
from sqlanon.server.session import Gone, Session
from sqlanon.server.startup import startup_settings
from sqlanon.server.users import Users

log = logging.getLogger("sqlanon")

VERSION = 3 << 16  # 3.0, written as PostgreSQL writes it


@dataclass
class Server:
    door: Door
    users: Users
    tls: TlsContext | None = None
    sessions: dict[int, tuple[bytes, Session]] = field(default_factory=dict)
    _strangers: OrderedDict[Connection, asyncio.Task[None]] = field(default_factory=OrderedDict)
    _listening: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _closing: bool = False

    def __post_init__(self) -> None:
        self.throttle = LoginThrottle(lambda: self.door.current.serve.limits.wrong_passwords)

    async def start(self) -> None:
        serve = self.door.current.serve
        self._listening = await asyncio.start_server(self._accepted, serve.host, serve.port, backlog=1024)

    @property
    def port(self) -> int:
        assert self._listening is not None
        return int(self._listening.sockets[0].getsockname()[1])

    async def close(self, patience: float = 5.0) -> None:
        """No new clients; statements that run may end, within reason."""
        self._closing = True
        if self._listening is not None:
            self._listening.close()
        for task in self._strangers.values():
            task.cancel()
        ends = time.monotonic() + patience
        while any(session.busy for _, session in self.sessions.values()) and time.monotonic() < ends:
            await asyncio.sleep(0.05)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- one client

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        limits = self.door.current.serve.limits
        connection = Connection(reader, writer, limits.message)
        self._strangers[connection] = task
        self._make_room(limits.unauthenticated)
        try:
            await self._client(connection)
        except (Gone, OSError, ssl.SSLError, TimeoutError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            if connection.session is not None:
                said = Refused("terminating connection due to administrator command", sqlstate="57P01")
                connection.put(error_bytes(said, "FATAL"))
                with suppress(Exception):
                    await connection.flush()
        except SqlanonError as error:
            # Of errors that are not the protocol's, such as a damaged file of users, a stranger learns nothing.
            told = (
                error
                if isinstance(error, frontend.ProtocolError)
                else Refused("logins are not possible now", sqlstate="57P03")
            )
            with suppress(OSError, TimeoutError):
                connection.put(error_bytes(told, "FATAL"))
                await connection.flush()
        except Exception as error:
            # A mistake of the server's own. Its text may hold what the client wrote, and stays here.
            log.error("a session ended with an error of the server: %s", type(error).__name__)
            with suppress(OSError, TimeoutError):
                connection.put(error_bytes(error, "FATAL"))
                await connection.flush()
        finally:
            self._strangers.pop(connection, None)
            self._tasks.discard(task)
            await connection.close()

    def _make_room(self, most: int) -> None:
        """Strangers who take their time make room for the next: they cannot keep anybody out by waiting.

        Those who came within the last second may be busy with their password: they go only when there are very many.
        """
        while len(self._strangers) > most:
            oldest = next(iter(self._strangers))
            if time.monotonic() - oldest.since < 1.0 and len(self._strangers) <= 10 * most:
                return
            self._strangers.pop(oldest).cancel()
            self.door.metrics.turned_away.add(1, door="pg")
            self.door.logins.refused("", "pg", oldest.address, "53300")

    async def _client(self, connection: Connection) -> None:
        timeouts = self.door.current.serve.timeouts
        async with asyncio.timeout(timeouts.authentication):
            startup = await self._startup(connection)
            if startup is None:
                return
            principal = await self._authenticated(connection, startup)
        if principal is None:
            return
        self._strangers.pop(connection, None)
        connection.idle = timeouts.idle
        await self._session(connection, principal, startup)

    async def _startup(self, connection: Connection) -> frontend.Startup | None:
        encrypted = False
        while True:
            message = await connection.first()
            match message:
                case frontend.SSLRequest() if self.tls is not None and not encrypted:
                    if connection.wire.buffered:
                        raise frontend.ProtocolError(
                            "08P01", "the client sent data before the encryption that it asked for", fatal=True
                        )
                    connection.writer.write(b"S")
                    await connection.writer.drain()
                    await connection.writer.start_tls(self.tls.context)
                    encrypted = True
                case frontend.SSLRequest() | frontend.GSSRequest():
                    connection.writer.write(b"N")
                    await connection.writer.drain()
                case frontend.CancelRequest():
                    self._cancel(message)
                    return None
                case frontend.Startup():
                    if self.tls is not None and not encrypted and not self._loopback(connection):
                        raise frontend.ProtocolError(
                            "28000", "this server takes encrypted connections only", fatal=True
                        )
                    connection.encrypted = encrypted
                    return message
                case _:
                    raise frontend.ProtocolError("08P01", "this message is not expected here", fatal=True)

    def _loopback(self, connection: Connection) -> bool:
        peer = connection.writer.get_extra_info("peername")
        return bool(peer) and (str(peer[0]).startswith("127.") or peer[0] in ("::1", "::ffff:127.0.0.1"))

    def _cancel(self, request: frontend.CancelRequest) -> None:
        known = self.sessions.get(request.process)
        if known is not None and hmac.compare_digest(known[0], request.secret):
            known[1].cancel()

    async def _authenticated(self, connection: Connection, startup: frontend.Startup) -> str | None:
        """SCRAM-SHA-256. Whether a name is known, a stranger cannot tell."""
        name = startup.parameters.get("user", "")
        if not name:
            raise frontend.ProtocolError("28000", "no user name was given", fatal=True)
        connection.wire.phase = "authentication"
        unknown = [key for key in startup.parameters if key.startswith("_pq_.")]
        if startup.version != (3, 0) or unknown:
            connection.put(backend.negotiate_protocol_version(VERSION, unknown))
        binding = self.tls.binding if self.tls and connection.encrypted else None
        self.users = self.users.current()
        exchange = scram.Exchange(name, self.users.verifier(name), secret=self.users.secret, binding=binding)
        connection.put(backend.authentication_sasl(exchange.mechanisms))
        await connection.flush()
        try:
            mechanism, data = (await connection.password()).sasl_initial()
            connection.put(backend.authentication_sasl_continue(exchange.first(data or b"", mechanism)))
            await connection.flush()
            proof = (await connection.password()).data
            self.throttle.begin(connection.address, name[:63])
            last = exchange.final(proof)
        except (scram.AuthenticationFailed, Refused) as error:
            await self._turned_away(connection, name, error)
            return None
        self.throttle.succeed(connection.address, name[:63])
        serve = self.door.current.serve
        wrong: Refused | None = None
        if name not in serve.gateway.principals:
            wrong = Refused(f'role "{name[:63]}" is not in the policy', sqlstate="28000")
        elif (wanted := startup.parameters.get("database", name)) != serve.database_name:
            hint = f'there is one database here, "{serve.database_name}"'
            wrong = Refused(f'database "{wanted[:63]}" does not exist', sqlstate="3D000", hint=hint)
        elif len(self.sessions) >= serve.limits.connections or self._closing:
            wrong = Refused("sorry, too many clients already", sqlstate="53300")
        elif startup.parameters.get("replication", "off") not in ("off", "false", "0", "no"):
            wrong = Refused("replication is not answered", sqlstate="0A000")
        if wrong:
            await self._turned_away(connection, name, wrong)
            return None
        connection.put(backend.authentication_sasl_final(last) + backend.authentication_ok())
        self.door.metrics.logins.add(1, door="pg", decision="answered")
        return name

    async def _turned_away(self, connection: Connection, name: str, error: SqlanonError) -> None:
        """Write a refused login down, and say why it was refused."""
        self.door.metrics.logins.add(1, door="pg", decision="refused")
        known = self.users.verifier(name) is not None
        self.door.logins.refused(name if known else "", "pg", connection.address, error.sqlstate)
        connection.put(error_bytes(error, "FATAL"))
        await connection.flush()

    async def _session(self, connection: Connection, principal: str, startup: frontend.Startup) -> None:
        settings = Settings(
            principal,
            lambda role: self.door.may_simulate(principal, role),
            lambda: self.door.current.serve.gateway.budget.statement.epsilon,
            lambda: self.door.current.serve.gateway.budget.statement.default,
        )
        process, secret = self._identity()
        caller = Caller(principal, f"{process:08x}{secrets.token_hex(4)}")
        await self.door.logins.succeeded(principal, caller.session, "pg", connection.address)
        session = Session(
            connection, self.door, caller, settings, process=process, still_allowed=lambda: self._allowed(principal)
        )
        for name, value in startup_settings(startup.parameters):
            try:
                settings.put(name, value)
            except SqlanonError as error:
                connection.put(error_bytes(error, "FATAL"))
                await connection.flush()
                return
        settings.starting = dict(settings.values)
        connection.session = session
        self.sessions[process] = (secret, session)
        self.door.metrics.connections.set(len(self.sessions), door="pg")
        connection.start_pump()
        try:
            connection.put(backend.backend_key_data(process, secret))
            await session.serve()
        finally:
            session.stop()
            del self.sessions[process]
            self.door.metrics.connections.set(len(self.sessions), door="pg")

    def _allowed(self, principal: str) -> bool:
        """Whether somebody who is connected could still connect: users and principals may be taken away."""
        try:
            self.users = self.users.current()
        except SqlanonError:
            return False  # the file of users is gone, or open to others
        known = self.users.verifier(principal) is not None
        return known and principal in self.door.current.serve.gateway.principals

    def _identity(self) -> tuple[int, bytes]:
        while True:
            process = secrets.randbelow(2**31 - 1) + 1
            if process not in self.sessions:
                return process, secrets.token_bytes(4)
