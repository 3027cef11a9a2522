"""The two servers of the client suite: a real PostgreSQL, which is the oracle, and the proxy; with the same tables."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import duckdb
import psycopg
from click.testing import CliRunner
from proxy_world import DATABASE, EVENTS, LARGE, OTHER, OTHER_PASSWORD, PASSWORD, POLICY, STREAMED, USER, sql_for

from sqlanon.cli import main
from sqlanon.ledger import Ledger
from sqlanon.ledger.book import Event

ROOT = Path(__file__).parents[1]
HOST = "127.0.0.1"
AUTHENTICATION = 3  # seconds that a client has for its password
POOR_PASSWORD = "poor but honest"
USERS = {USER: PASSWORD, OTHER: OTHER_PASSWORD, "poor": POOR_PASSWORD}
DEBIAN = Path("/usr/lib/postgresql")


class Missing(Exception):
    """A program or package that is not on this machine."""


@dataclass
class Server:
    """Where to connect, and what differs between the two."""

    name: str
    port: int
    pid: int
    slow: str  # a statement that runs for some seconds
    folder: Path
    host: str = HOST
    user: str = USER
    password: str = PASSWORD
    database: str = DATABASE
    log: Path = field(default_factory=Path)

    @property
    def proxy(self) -> bool:
        return self.name == "proxy"

    def url(self, scheme: str = "postgresql", **options: str) -> str:
        """A URL as clients take it; options are those of libpq."""
        given = f"{scheme}://{quote(self.user)}:{quote(self.password, safe='')}@{self.host}:{self.port}/{self.database}"
        return given + ("?" + urlencode(options, quote_via=quote) if options else "")

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """psycopg's connection, which commits each statement if nothing else is asked for."""
        return psycopg.connect(**{**self.arguments(), "autocommit": True, **options})

    def arguments(self) -> dict[str, Any]:
        return {
            "host": self.host, "port": self.port, "user": self.user, "password": self.password, "dbname": self.database
        }  # fmt: skip

    def environment(self) -> dict[str, str]:
        """For psql and others that read PGHOST and so on: a password is never on a command line."""
        given = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        return given | {
            "PGHOST": self.host, "PGPORT": str(self.port), "PGUSER": self.user, "PGPASSWORD": self.password,
            "PGDATABASE": self.database, "PGCLIENTENCODING": "UTF8", "PSQLRC": "/dev/null", "PAGER": "cat",
            "PSQL_PAGER": "cat", "LC_ALL": "C.UTF-8",
        }  # fmt: skip

    def charges(self, principal: str = USER) -> int:
        """How often the principal has been charged; nobody is by PostgreSQL."""
        return sum(event.kind == "charge" for event in self._events(principal))

    def answered(self, principal: str = USER) -> int:
        """How many of the charges ended with an answer."""
        return sum(event.kind == "answered" for event in self._events(principal))

    def unsettled(self) -> int:
        """Charges whose end was not noted."""
        events = self._events(None)
        settled = {event.settles for event in events}
        return sum(event.kind == "charge" and event.id not in settled for event in events)

    def _events(self, principal: str | None) -> list[Event]:
        if not self.proxy:
            return []
        with Ledger.open(self.folder / "policy.ledger") as ledger:
            return ledger.history(principal)


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float = 300.0) -> None:
    """Until somebody listens; a server that ended instead shows what it wrote."""
    deadline = time.monotonic() + seconds
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server does not listen on port {port}:\n{log.read_text(errors='replace')}")
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)


def stop(process: subprocess.Popen[bytes], signal: int) -> None:
    process.send_signal(signal)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
        raise


# ---- PostgreSQL


def _binaries() -> tuple[Path, str | None]:
    """Where initdb and postgres are, and the user who may run them: PostgreSQL refuses root."""
    root = os.geteuid() == 0
    for version in ("15", "16", "17"):
        found = DEBIAN / version / "bin"
        if (found / "initdb").exists() and (found / "postgres").exists():
            return found, "postgres" if root else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the wheel's own dependencies
            from pgserver import _commands, utils
    except ImportError:
        raise Missing("needs PostgreSQL 15 (package postgresql-15), or the package pgserver") from None
    found = Path(_commands.POSTGRES_BIN_PATH)
    if root:
        utils.ensure_user_exists("pgserver")
        utils.ensure_prefix_permissions(found)
        utils.ensure_folder_permissions(found, 0o555)
    return found, "pgserver" if root else None


@contextmanager
def running_postgres(*, large: bool = False) -> Iterator[Server]:
    """A PostgreSQL of the tests' own, with a role that may read and needs its password."""
    found, user = _binaries()
    folder = Path(tempfile.mkdtemp(prefix="sqlanon-postgres-", dir="/tmp"))
    log = folder / "log"
    log.touch()
    if user:
        account = pwd.getpwnam(user)
        for path in (folder, log):
            os.chown(path, account.pw_uid, account.pw_gid)
    secret = folder / "secret"
    secret.write_text("postgres\n")
    secret.chmod(0o644)
    data = folder / "data"
    options: dict[str, Any] = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
    making = [found / "initdb", "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8",
              "--locale=C.UTF-8", "--no-sync"]  # fmt: skip
    try:
        subprocess.run(making, check=True, stdout=subprocess.DEVNULL, cwd="/", **options)
        port = free_port()
        settings = {
            "listen_addresses": HOST, "port": port, "unix_socket_directories": "", "fsync": "off", "timezone": "UTC",
            "max_connections": 700, "log_min_messages": "warning", "authentication_timeout": AUTHENTICATION,
        }  # fmt: skip
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with log.open("ab") as written:
            process = subprocess.Popen(
                [found / "postgres", "-D", data, *flags], stdout=written, stderr=written, cwd="/", **options
            )
        try:
            wait_for(port, process, log)
            _fill_postgres(port, large)
            yield Server("postgres", port, process.pid, "SELECT pg_sleep(20)", folder, log=log)
        finally:
            stop(process, 2)
    finally:
        shutil.rmtree(folder)


def _fill_postgres(port: int, large: bool) -> None:
    owner = {"host": HOST, "port": port, "user": "postgres", "password": "postgres", "autocommit": True}
    deadline = time.monotonic() + 20
    while True:
        try:
            made = psycopg.connect(**owner)
            break
        except psycopg.OperationalError:  # it listens, and is still starting up
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with made as connection:
        for name, password in USERS.items():
            quoted = psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                psycopg.sql.Identifier(name), psycopg.sql.Literal(password)
            )
            connection.execute(quoted)
        connection.execute(f"CREATE DATABASE {DATABASE}")
    with psycopg.connect(**owner, dbname=DATABASE) as connection:
        connection.execute("SET standard_conforming_strings = on")
        connection.execute(sql_for("postgres"))
        if large:
            connection.execute(LARGE.format(streamed=STREAMED))
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC")
        connection.execute("ANALYZE")


# ---- the proxy

# Many sums over all rows of persons; the text is its own in each call, so that no answer is known before.
SLOW = "SELECT " + ", ".join(f"sum(size * size / {number}) AS s{number}" for number in range(3, 13)) + " FROM events"
SERVE = """
serve:
  port: {port}
  database: warehouse
  workers: 3
  limits: {{unauthenticated: 64, connections: 64}}
  timeouts: {{authentication: {authentication}}}
"""


@contextmanager
def running_proxy(
    *, large: bool = False, events: int = 2_000_000, options: str = SERVE, over: Server | None = None
) -> Iterator[Server]:
    """`sqlanon serve` with users of its own, over a DuckDB file with the tables of the suite; or over those that are
    in another server."""
    folder = Path(tempfile.mkdtemp(prefix="sqlanon-proxy-"))
    try:
        port = free_port()
        served = POLICY
        if over is None:
            with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
                connection.execute(sql_for("duckdb"))
                connection.execute(LARGE.format(streamed=STREAMED if large else 1000))
                connection.execute(EVENTS.format(events=events))
        else:
            lines = POLICY.replace("warehouse.duckdb", f'"{over.url()}"').splitlines(keepends=True)
            served = "".join(line for line in lines if not line.strip().startswith(("events:", "rows_released:")))
        policy = folder / "policy.yml"
        policy.write_text(served + options.format(port=port, authentication=AUTHENTICATION), encoding="utf-8")
        run_sqlanon("budget", "init", str(policy))
        for name, password in USERS.items():
            run_sqlanon("user", "add", str(policy), name, "--stdin", given=password + "\n")
        log = folder / "log"
        with log.open("ab") as written:
            process = subprocess.Popen(
                [sys.executable, "-m", "sqlanon", "serve", str(policy)],
                stdin=subprocess.DEVNULL, stdout=written, stderr=written, env=_environment(),
            )  # fmt: skip
        try:
            wait_for(port, process, log)
            yield Server("proxy", port, process.pid, SLOW, folder, log=log)
            if process.poll() is not None:
                raise RuntimeError(f"the proxy ended by itself:\n{log.read_text(errors='replace')[-4000:]}")
        finally:
            stop(process, 15)
    finally:
        shutil.rmtree(folder)


def run_sqlanon(*args: str, given: str = "") -> str:
    """A command in this process: starting Python four times takes longer than all of them."""
    done = CliRunner().invoke(main, list(args), input=given)
    if done.exit_code:
        raise RuntimeError(f"sqlanon {' '.join(args)} failed:\n{done.output}")
    return done.stdout


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
