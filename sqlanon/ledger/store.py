"""The file of the ledger: how it is made, opened and found to be broken. Every failure is a LedgerError.

WAL with synchronous=FULL: a commit is on the disk, in the -wal beside the file, before it returns. When a statement is
settled it is carried over to the main file, and the -wal goes when the last process closes the ledger. Only after a
crash can the -wal hold the only copy of a charge that was not settled: copy and move both, and never remove it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from sqlanon.errors import LedgerError
from sqlanon.families import sql_root
from sqlanon.ledger.anchor import Anchor, head_file, read_anchor, write_anchor
from sqlanon.ledger.book import NEVER_FROM_ZERO, Head, genesis

APPLICATION = 0x53514C41  # "SQLA"
SCHEMA = 2  # 1: of before heads were kept beside the file
SMALL = 64  # pages: up to here a file is checked as a whole whenever it is opened


@cache
def _schema() -> str:
    folder = sql_root() / "state"
    return "\n".join((folder / f"{name}.sql").read_text(encoding="utf-8") for name in ("ledger", "answers", "queries"))


@cache
def _objects() -> frozenset[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_schema())
        return _objects_in(connection)


def _objects_in(connection: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    return frozenset(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


@contextmanager
def translate_errors(path: Path, wait: float) -> Iterator[None]:
    """An error of SQLite as what it means here."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite quotes what is broken in its message
        raise LedgerError(
            f"the ledger {path} is damaged: it has bytes that are not text", hint=NEVER_FROM_ZERO
        ) from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise LedgerError(
                f"the ledger {path} was held by another process for {wait:g} seconds",
                hint="Nothing was charged. Try again, and look for a process that holds the file open.",
            ) from error
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            raise LedgerError(
                f"the ledger {path} cannot be written: {error}",
                hint="Nothing was answered. Make room on the disk, or repair it, and try again.",
            ) from error
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
            raise LedgerError(f"the ledger {path} cannot be opened: {error}", hint=WRITABLE) from error
        raise LedgerError(f"the ledger {path} is damaged: {error}", hint=NEVER_FROM_ZERO) from error


WRITABLE = "The file and its folder must be readable and writable for the user that runs the gateway."


def make(path: Path) -> None:
    """A new ledger, for its owner alone."""
    if not path.parent.is_dir():
        raise LedgerError(f"there is no folder {path.parent} for the ledger", hint="Create it, and keep it backed up.")
    left_over = path.with_name(path.name + "-wal")
    if left_over.exists():
        raise LedgerError(
            f"{left_over} belongs to a ledger that was here before", hint="Put that ledger back, or remove this file."
        )
    kept = read_anchor(path)
    if kept is not None and kept.head.events and not path.exists():
        raise LedgerError(
            f"{head_file(path)} says that a ledger with {kept.head.events} events was here before",
            hint="Put that ledger back. A new budget for the same data needs a ledger of another name.",
        )
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise LedgerError(f"{path} is already there", hint="Open it; a ledger is never started anew.") from None
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be created: {error.strerror}", hint=WRITABLE) from error
    name = str(uuid.uuid4())
    try:
        with translate_errors(path, 0), closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(
                f"PRAGMA application_id = {APPLICATION}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; BEGIN;"
                + _schema()
            )
            connection.execute(
                "INSERT INTO head VALUES (1, ?, 0, ?, ?)", [name, genesis(name), str(secrets.randbits(62))]
            )
            write_anchor(path, Anchor(name, Head(0, genesis(name))), anew=True)
            # Last: a file that has a version is a whole ledger.
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
    except BaseException:
        for suffix in ("", "-wal", "-shm", ".head"):
            with suppress(OSError):
                path.with_name(path.name + suffix).unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def connect(path: Path, wait: float) -> sqlite3.Connection:
    """A connection to a ledger that is there and is one."""
    try:
        found = path.stat()
    except OSError as error:
        raise LedgerError(
            f"there is no ledger at {path}: {error.strerror}",
            hint="If it was lost, put back its newest backup. For a new gateway: 'sqlanon budget init'.",
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(f"{path} is not a file", hint="Name the file of the ledger.")
    if found.st_size == 0:
        raise LedgerError(f"the ledger {path} is empty", hint=NEVER_FROM_ZERO)
    if not found.st_mode & stat.S_IWUSR or not os.access(path, os.R_OK | os.W_OK):
        raise LedgerError(f"the ledger {path} is read-only", hint=WRITABLE)
    with translate_errors(path, wait):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=wait, isolation_level=None, check_same_thread=False
        )
        try:
            _examine(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    return connection


def _examine(connection: sqlite3.Connection, path: Path) -> None:
    def pragma(name: str) -> object:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]

    if pragma("application_id") != APPLICATION:
        raise LedgerError(f"{path} is not a ledger of sqlanon", hint="Name the file of the ledger.")
    if (version := pragma("user_version")) not in (1, SCHEMA):
        raise LedgerError(
            f"the ledger {path} has the version {version}, and this sqlanon reads version {SCHEMA}",
            hint="Use the sqlanon that wrote it, or a newer one.",
        )
    if pragma("journal_mode") != "wal" or _objects_in(connection) != _objects():
        raise LedgerError(f"the ledger {path} is damaged: its tables or triggers were changed", hint=NEVER_FROM_ZERO)
    if int(str(pragma("page_count"))) <= SMALL:
        check_pages(connection, path)


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite's own check of the whole file."""
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise LedgerError(f"the ledger {path} is damaged: {found}", hint=NEVER_FROM_ZERO)


def begin_anchor(connection: sqlite3.Connection, path: Path) -> None:
    """Keep the head of a ledger of before heads were kept: from now on one without its head is refused."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA:
            ledger, events, digest = connection.execute("SELECT ledger, events, hash FROM head").fetchone()
            write_anchor(path, Anchor(ledger, Head(events, digest)))
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
