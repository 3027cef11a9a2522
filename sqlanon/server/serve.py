"""All parts of the proxy, started together and stopped together; and the watch over the policy's file."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from sqlanon.errors import SqlanonError
from sqlanon.ledger import Ledger
from sqlanon.pgwire import tls as certificates
from sqlanon.policy.files import load_serve
from sqlanon.policy.serve import Serve
from sqlanon.server.audit import AuditLog
from sqlanon.server.audit_chain import verify
from sqlanon.server.broker import Door, PolicyVersion, version_of
from sqlanon.server.http import Answers, HttpLimits, HttpServer
from sqlanon.server.http_api import ROUTES, Api
from sqlanon.server.login_throttle import LoginThrottle
from sqlanon.server.pool import Pool
from sqlanon.server.server import Server
from sqlanon.server.users import Users

WATCH = 0.25  # seconds between two looks at the policy's file
SIGNALLED = 0.2  # seconds in which a signal to a group of processes has reached all of them
CATALOG_MEMORY = 2**29

log = logging.getLogger("sqlanon")


@asynccontextmanager
async def open_door(path: Path) -> AsyncIterator[tuple[Door, Users]]:
    """Policy, ledger, users, audit log and workers: whatever is wrong shows here, before anybody connects."""
    serve = load_serve(path)
    Ledger.open(serve.gateway.located_ledger).close()
    users = Users.load(serve.located_users)
    async with AsyncExitStack() as stack:
        audit = AuditLog(serve.located_audit)
        queries = Pool(serve.gateway, kind="query", size=serve.workers, memory=serve.memory)
        # Two: otherwise one client with a bomb keeps all others waiting for a new worker.
        catalog = Pool(None, kind="catalog", size=2, memory=CATALOG_MEMORY)
        door = Door(path, PolicyVersion(serve, 1, version_of(serve)), audit, queries, catalog)
        for pool in (queries, catalog):
            pool.most_of_one = lambda: door.current.serve.limits.statements
        stack.push_async_callback(door.close)
        await door.start()
        yield door, users


async def check(path: Path) -> tuple[Serve, int]:
    """All that `serve` needs, opened once and closed again; and how many lines of the audit log hold together."""
    async with open_door(path) as (door, _):
        _tls(door.current.serve)
        found = await asyncio.to_thread(verify, door.current.serve.located_audit)
        return door.current.serve, found.lines


async def run(
    path: Path,
    ready: Callable[[Server, HttpServer | None], None],
    beside: Callable[[threading.Event, Callable[[], None]], None] | None = None,
) -> None:
    """Serve until a signal says stop.

    `beside` works in a thread until its event is set, such as a scheduler, and calls what it is given when it changed
    data. What it is about at the end is finished first."""
    for host, port in _addresses(load_serve(path)):
        require_free(host, port)  # workers take seconds to start
    async with AsyncExitStack() as stack:
        door, users = await stack.enter_async_context(open_door(path))
        tls = _tls(door.current.serve)
        server = Server(door, users, tls)
        await server.start()
        stack.push_async_callback(server.close)
        http = await stack.enter_async_context(_http(door, lambda: server.users.current(), tls, server.throttle))
        await _until_stopped(door, lambda: ready(server, http), beside)


async def run_console(path: Path, others: tuple[Path, ...], port: int, ready: Callable[[HttpServer], None]) -> None:
    """Show the web console alone, without the doors for programs, until a signal says stop."""
    require_free(load_serve(path).host, port)
    async with AsyncExitStack() as stack:
        door, users = await stack.enter_async_context(open_door(path))
        serve, tls = door.current.serve, _tls(door.current.serve)
        known = [users]

        def current() -> Users:
            known[0] = known[0].current()
            return known[0]

        throttle = LoginThrottle(lambda: door.current.serve.limits.wrong_passwords)
        api = _api(door, current)
        pages = await stack.enter_async_context(_console(door, api, throttle, (path, *others), tls, ("/healthz",)))
        http = HttpServer(pages, _limits(serve), tls.context if tls else None)
        await http.start(serve.host, port)
        stack.push_async_callback(http.close)
        await _until_stopped(door, lambda: ready(http), None)


async def _until_stopped(
    door: Door, ready: Callable[[], None], beside: Callable[[threading.Event, Callable[[], None]], None] | None
) -> None:
    """Watch the policy and the data, and work on what stands beside, until a signal says stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    changed, renewed = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, changed.set)
    watch = asyncio.create_task(_watch(door, changed, renewed, stop))
    ended = threading.Event()

    def renew() -> None:
        loop.call_soon_threadsafe(renewed.set)

    other = asyncio.create_task(_beside(beside, ended, renew, stop))
    ready()
    try:
        await stop.wait()
    finally:
        ended.set()
        await other
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch


def _addresses(serve: Serve) -> list[tuple[str, int]]:
    ports = [serve.port, *([serve.http.port] if serve.http is not None else [])]
    return [(serve.host, port) for port in ports if port]


def require_free(host: str, port: int) -> None:
    """Raise an error if somebody else listens at an address, or if this machine does not have it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                trial.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = "stop the program that listens there, or give another 'port' under 'serve'"
            raise SqlanonError(f"port {port} of {host} is already in use", hint=hint) from None
        hint = f"correct 'host' or 'port' under 'serve': {error.strerror or 'the system refused'}"
        raise SqlanonError(f"the server cannot listen on {host}, port {port}", hint=hint) from None


@asynccontextmanager
async def _http(
    door: Door, users: Callable[[], Users], tls: certificates.TlsContext | None, throttle: LoginThrottle
) -> AsyncIterator[HttpServer | None]:
    """The HTTP door, if there is one, with the pages of the console if the policy asks for them."""
    serve = door.current.serve
    if serve.http is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        api: Answers = _api(door, users)
        if serve.console:
            console = _console(door, _api(door, users), throttle, (door.path,), tls, tuple(ROUTES))
            api = await stack.enter_async_context(console)
        server = HttpServer(api, _limits(serve), tls.context if tls else None)
        await server.start(serve.host, serve.http.port)
        stack.push_async_callback(server.close)
        yield server


def _api(door: Door, users: Callable[[], Users]) -> Api:
    return Api(
        door, users, lambda: door.current.serve.gateway.principals, door.current.serve.located_audit, door.metrics,
        door.logins, administrators=lambda: door.current.serve.administrators,
        local_metrics=lambda: (found := door.current.serve.http) is not None and found.local_metrics,
    )  # fmt: skip


def _limits(serve: Serve) -> HttpLimits:
    caps, times = serve.limits, serve.timeouts
    return HttpLimits(caps.connections, caps.unauthenticated, caps.message, caps.result, times.authentication)


@asynccontextmanager
async def _console(
    door: Door,
    api: Api,
    throttle: LoginThrottle,
    policies: tuple[Path, ...],
    tls: certificates.TlsContext | None,
    passed_on: tuple[str, ...],
) -> AsyncIterator[Answers]:
    """The pages of the console; loaded here, since most servers show none."""
    try:
        from sqlanon.console.application import application
        from sqlanon.console.evidence_reader import EvidenceReader
        from sqlanon.console.front_door import FrontDoor
        from sqlanon.console.site import Site
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        raise SqlanonError(f"the web console needs {missing}", hint="pip install 'sqlanon[console]'") from None
    reader = EvidenceReader(policies)
    site = Site(door, api.users, throttle, policies, reader, tls is not None)
    try:
        yield FrontDoor(site, application(site), api, passed_on)
    finally:
        await reader.close()


def _tls(serve: Serve) -> certificates.TlsContext | None:
    files = serve.located_tls
    return certificates.load(*files) if files else None


async def _beside(
    work: Callable[[threading.Event, Callable[[], None]], None] | None,
    ended: threading.Event,
    tell: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    if work is None:
        return
    try:
        await asyncio.to_thread(work, ended, tell)
    except Exception as error:  # half of what was asked for is not served silently
        log.error("a background task failed (%s): the server stops", type(error).__name__)
        stop.set()


async def _watch(door: Door, changed: asyncio.Event, renewed: asyncio.Event, stop: asyncio.Event) -> None:
    """Read the policy again when its file changes, or when a signal says so; open the data again when they did.

    Whatever goes wrong once the server is told to stop is no fault of the policy: a signal to the whole group of
    processes ends the workers, too."""
    seen, data = _state(door.path), _state(door.queries.file)
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(WATCH):
                await changed.wait()
        state, now = _state(door.path), _state(door.queries.file)
        if renewed.is_set() or now != data:
            data = now
            renewed.clear()
            try:
                await door.renew()
            except Exception as error:
                if await _stops(stop):
                    return
                log.error("the data cannot be opened again: %s", type(error).__name__)
        if state == seen and not changed.is_set():
            continue
        seen = state
        changed.clear()
        try:
            if await door.reload():
                log.warning("policy version %d is in force", door.current.number)
        except (SqlanonError, OSError) as error:
            if await _stops(stop):
                return
            log.error("the policy cannot be used, and nothing is answered until it can: %s", error)
        except Exception as error:  # it must go on watching, or the next change would not be seen
            if await _stops(stop):
                return
            log.error("the policy cannot be used, and nothing is answered until it can: %s", type(error).__name__)


async def _stops(stop: asyncio.Event) -> bool:
    """Whether the server is told to stop, now or with the signal that ended a worker a moment ago."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SIGNALLED):
            await stop.wait()
    return stop.is_set()


def _state(path: Path | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
