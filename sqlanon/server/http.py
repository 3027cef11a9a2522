"""The HTTP/1.1 door: connections, limits and timeouts around `http_api`.

A client is known by its bearer token before its body is read. Those that have not yet given one are few: of too many
the one that has waited longest goes, so that silent connections keep nobody out. A client that hangs up stops its
statement.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import h11

from sqlanon.errors import SqlanonError
from sqlanon.server.http_api import HttpError, HttpRequest, Response, failure
from sqlanon.server.login_log import Logins, address_of
from sqlanon.server.metrics import Metrics

HEADERS = 16 * 2**10  # bytes of the head of a request
CHUNK = 2**16
KEEP_ALIVE = 60.0  # seconds between two requests
T = TypeVar("T")


@dataclass(frozen=True)
class HttpLimits:
    connections: int = 100
    unauthenticated: int = 20
    body: int = 16 * 2**20
    result: int = 256 * 2**20
    head: float = 10.0  # seconds for TLS and the head of a request
    transfer: float = 60.0  # seconds for a body, or for a client that does not read


class Answers(Protocol):
    """What is behind the door: `Api`, or the web console around it."""

    @property
    def metrics(self) -> Metrics: ...

    @property
    def logins(self) -> Logins | None: ...

    def admit(self, request: HttpRequest) -> str | None: ...

    async def admitted(self, principal: str, request: HttpRequest) -> None: ...

    async def answer(self, request: HttpRequest, principal: str | None, body: bytes) -> Response: ...


class _Gone(Exception):
    """The client has closed the connection."""


@dataclass(eq=False)
class _Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection = field(default_factory=lambda: h11.Connection(h11.SERVER, max_incomplete_event_size=HEADERS))


@dataclass
class HttpServer:
    """Listens; each connection is a task of its own."""

    api: Answers
    limits: HttpLimits = field(default_factory=HttpLimits)
    tls: ssl.SSLContext | None = None
    _server: asyncio.Server | None = None
    _clients: set[asyncio.Task[Any]] = field(default_factory=set)
    _waiting: dict[_Client, asyncio.Task[Any]] = field(default_factory=dict)  # the oldest first
    _known: set[_Client] = field(default_factory=set)  # with a token that was valid

    async def start(self, host: str, port: int) -> None:
        # TLS begins in `_connected`, so that a handshake that never ends is counted like any other silence.
        self._server = await asyncio.start_server(self._connected, host, port, limit=CHUNK)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Take no more clients, and end what is under way."""
        if self._server is not None:
            self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        client = _Client(reader, writer)
        metrics = self.api.metrics
        self._clients.add(task)
        metrics.connections.add(1, door="http")
        try:
            self._waiting[client] = task
            if len(self._waiting) > self.limits.unauthenticated:
                metrics.turned_away.add(1, door="http")
                self._waiting.pop(oldest := next(iter(self._waiting))).cancel()
                if self.api.logins is not None:
                    self.api.logins.refused("", "http", address_of(oldest.writer.get_extra_info("peername")), "53300")
                oldest.writer.transport.abort()
            if self.tls is not None:
                await _within(writer.start_tls(self.tls), self.limits.head)
            await self._serve(client)
        except (_Gone, OSError, TimeoutError, asyncio.CancelledError, ssl.SSLError):
            pass  # nothing is said to who is not there; a task that is cancelled here has nobody who waits for it
        finally:
            self._waiting.pop(client, None)
            self._known.discard(client)
            self._clients.discard(task)
            metrics.connections.add(-1, door="http")
            with suppress(OSError, RuntimeError):
                writer.close()

    async def _serve(self, client: _Client) -> None:
        wait = self.limits.head
        while True:
            try:
                request = await self._request(client, wait)
                if request is None:
                    return
                response = await self._response(client, request)
            except h11.RemoteProtocolError as error:
                told = HttpError(error.error_status_hint or 400, "the request is not HTTP/1.1", sqlstate="08P01")
                await self._send(client, failure(told), last=True)
                return
            except HttpError as error:
                await self._send(client, failure(error), last=True)
                return
            await self._send(client, response)
            if client.http.our_state is not h11.DONE or client.http.their_state is not h11.DONE:
                return  # the rest of a body that nobody has read is not the next request
            client.http.start_next_cycle()
            wait = KEEP_ALIVE

    # ---- in

    async def _request(self, client: _Client, wait: float) -> h11.Request | None:
        try:
            event = await _within(self._event(client), wait)
        except TimeoutError:
            if client.http.their_state is h11.IDLE and not client.http.trailing_data[0]:
                return None  # it has not begun one: between two requests a connection may simply end
            raise HttpError(408, "the request took too long", sqlstate="57014") from None
        if isinstance(event, h11.Request):
            return event
        return None

    async def _event(self, client: _Client) -> Any:
        while True:
            event = client.http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if client.http.they_are_waiting_for_100_continue:
                client.writer.write(client.http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            client.http.receive_data(await client.reader.read(CHUNK))

    async def _body(self, client: _Client, head: h11.Request, most: int) -> bytes:
        length = next((value for name, value in head.headers if name == b"content-length"), b"0")
        too_long = HttpError(413, f"a request has at most {most} bytes here", sqlstate="54000")
        if len(length) > 18 or int(length) > most:
            raise too_long
        made = bytearray()
        while True:
            event = await self._event(client)
            if isinstance(event, h11.Data):
                made += event.data
                if len(made) > most:
                    raise too_long
            elif isinstance(event, h11.EndOfMessage):
                return bytes(made)
            else:
                raise _Gone

    async def _response(self, client: _Client, head: h11.Request) -> Response:
        request = HttpRequest(
            head.method.decode("ascii"),
            head.target.decode("ascii"),
            _headers(head),
            _is_local(client.writer.get_extra_info("peername")),
            address_of(client.writer.get_extra_info("peername")),
        )
        principal = self.api.admit(request)
        if principal is not None and client not in self._known:
            if len(self._known) >= self.limits.connections:
                self.api.metrics.turned_away.add(1, door="http")
                if self.api.logins is not None:
                    self.api.logins.refused(principal, "http", request.peer, "53300")
                raise HttpError(503, "too many clients", hint="try again later", sqlstate="53300")
            self._waiting.pop(client, None)  # from now on it is no longer among those that may be sent away
            self._known.add(client)
            try:
                await self.api.admitted(principal, request)
            except SqlanonError as error:
                raise HttpError(503, error.message, hint=error.hint, sqlstate="58030") from None
        try:
            most = self.limits.body if principal is not None and request.method == "POST" else HEADERS
            body = await _within(self._body(client, head, most), self.limits.transfer)
        except TimeoutError:
            raise HttpError(408, "the request took too long", sqlstate="57014") from None
        try:
            response = await self._while_connected(client, self.api.answer(request, principal, body))
        except (_Gone, OSError):
            raise
        except Exception as error:
            return failure(error)
        if len(response.body) > self.limits.result:
            return failure(HttpError(400, "the answer is too long", hint="ask for less at a time", sqlstate="54000"))
        return response

    async def _while_connected(self, client: _Client, work: Awaitable[Response]) -> Response:
        """Work that is stopped if the client hangs up."""
        doing = asyncio.ensure_future(work)
        reading = asyncio.ensure_future(client.reader.read(CHUNK))
        try:
            await asyncio.wait({doing, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done() and not reading.result():
                raise _Gone
            return await doing
        finally:
            await _stopped(doing)
            await _stopped(reading)
            if not reading.cancelled() and reading.exception() is None:
                client.http.receive_data(reading.result())  # the beginning of the next request

    # ---- out

    async def _send(self, client: _Client, response: Response, last: bool = False) -> None:
        if client.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [
            ("Content-Type", response.kind),
            ("Content-Length", str(len(response.body))),
            *(() if any(name == "Cache-Control" for name, _ in response.headers) else [("Cache-Control", "no-store")]),
            ("X-Content-Type-Options", "nosniff"),
            *response.headers,
            *([("Connection", "close")] if last else []),
        ]
        client.writer.write(client.http.send(h11.Response(status_code=response.status, headers=headers)) or b"")
        for start in range(0, len(response.body), CHUNK):
            client.writer.write(client.http.send(h11.Data(data=response.body[start : start + CHUNK])) or b"")
            await _within(client.writer.drain(), self.limits.transfer)
        client.writer.write(client.http.send(h11.EndOfMessage()) or b"")
        await _within(client.writer.drain(), self.limits.transfer)
        if last:
            await self._linger(client)

    async def _linger(self, client: _Client) -> None:
        """Read a little of what still comes: closed at once, the client would see a reset instead of the answer."""
        with suppress(OSError, TimeoutError, RuntimeError):
            if client.writer.can_write_eof():
                client.writer.write_eof()
            async with asyncio.timeout(1.0):
                for _ in range(64):
                    if not await client.reader.read(CHUNK):
                        return


async def _within(work: Awaitable[T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await work


async def _stopped(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task


def _headers(head: h11.Request) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, value in head.headers:
        key = name.decode("latin-1").casefold()
        if key in made and key in ("authorization", "content-type", "cookie", "host", "origin"):
            raise HttpError(400, "a header is given twice", sqlstate="08P01")
        made[key] = value.decode("latin-1")
    return made


def _is_local(peer: Any) -> bool:
    try:
        return ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback
    except (ValueError, TypeError, IndexError, AttributeError):
        return False
