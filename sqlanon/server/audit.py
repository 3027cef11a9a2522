"""The audit log: one line of JSON for each statement, on the disk before its answer leaves; and for logins (`logins`).

Each line is bound to the one before it by a hash (`audit_chain`), so that a line that was changed, removed or put in
shows (`verify`). What cannot be found from the files alone: lines missing at the very end, and a chain that somebody
wrote anew; for that keep the `Head` elsewhere. A file that has grown too long is put aside as `NAME.000001`, and the
chain goes on in a new one. A line that a crash cut off is kept in a file of its own, with a record that says so.

Lines hold names and shapes of statements, never literals and never data; all but plain ASCII is escaped.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import stat
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from sqlanon.server.audit_chain import (
    AuditError,
    AuditHead,
    Chain,
    last_of,
    parts,
    read_chain,
    recent,
    seal_entry,
    verify,
)

ROTATE = 64 * 2**20
LONGEST = 4096  # characters of one text; more is cut, and its hash noted
MOST = 500  # names in one list


Door = Literal["pg", "http", "console", "server"]
Decision = Literal["answered", "refused", "failed", "cancelled"]
EventKind = Literal["statement", "login", "policy", "server", "action"]


@dataclass(frozen=True)
class Record:
    """What is kept of a statement, or of another event of the server."""

    session: str
    principal: str
    door: Door
    decision: Decision
    event: EventKind = "statement"
    kind: str = ""  # of the answer: dp, plain, catalogue, explain, synthetic, controlled; or what an action is
    shape: str = ""  # the statement without its literals; of an action, what it was done to
    policy: str = ""  # fingerprint
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    sqlstate: str = "00000"
    epsilon: float = 0.0
    delta: float = 0.0
    withheld: int = 0
    rows: int = 0
    cached: bool = False
    simulated: str = ""  # the role that an administrator tried, on made-up data
    address: str = ""  # of a login
    count: int = 1  # of logins that are alike

    def __post_init__(self) -> None:
        # Here, and not when it is written: there it would take down the records of others with it.
        known = (self.door, Door), (self.decision, Decision), (self.event, EventKind)
        texts = [self.session, self.principal, self.simulated, self.kind, self.shape, self.policy, self.sqlstate]
        texts += [self.address]
        right = all(word in get_args(words) for word, words in known)
        right &= all(isinstance(text, str) for text in (*texts, *self.tables, *self.columns))
        right &= type(self.tables) is tuple and type(self.columns) is tuple
        right &= math.isfinite(self.epsilon) and math.isfinite(self.delta)
        right &= all(type(number) is int for number in (self.withheld, self.rows, self.count))
        if not right:
            raise AuditError("a record of the audit log is not valid")

    def entry(self, number: int, at: datetime) -> dict[str, Any]:
        """As it is written."""
        made: dict[str, Any] = {"n": number, "time": at.isoformat(timespec="microseconds")}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("address", "count") and self.event != "login":
                continue
            if isinstance(value, str) and len(value) > LONGEST:
                made[f"{each.name}_sha256"] = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
                value = value[:LONGEST]
            elif isinstance(value, tuple):
                if len(value) > MOST:
                    made[f"{each.name}_count"] = len(value)
                value = [name[:LONGEST] for name in value[:MOST]]
            made[each.name] = value
        return made


class AuditLog:
    """One file, written by one process. `await log.write(record)` returns when the record is on the disk."""

    def __init__(self, path: str | os.PathLike[str], *, rotate: int = ROTATE) -> None:
        self.path = Path(path)
        self.recovered: Path | None = None  # where a line that a crash cut off was kept, if there was one
        self._rotate = rotate
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "audit")
        self._pending: list[tuple[Record, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._descriptor = -1
        self._broken: str | None = None
        self._chain = Chain()
        try:
            self._open()
        except OSError as error:
            self._close()
            raise _unusable(self.path, error) from None
        except BaseException:
            self._close()
            raise

    @property
    def head(self) -> AuditHead:
        with self._lock:
            return AuditHead(self._chain.lines, self._chain.hash)

    async def write(self, record: Record) -> None:
        """Put a record on the disk; those that come meanwhile go there together. Raises AuditError: do not answer."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._pending.append((record, done))
        if self._writer is None or self._writer.done():
            self._writer = loop.create_task(self._write_pending())
        await done

    async def _write_pending(self) -> None:
        while self._pending:
            batch, self._pending = self._pending, []
            error: BaseException | None = None
            try:
                records = [record for record, _ in batch]
                await asyncio.get_running_loop().run_in_executor(self._thread, self.append, records)
            except asyncio.CancelledError:
                error = AuditError("the audit log is being closed")
            except BaseException as found:
                error = found
            for _, done in batch:
                if done.done():
                    continue  # who asked has gone
                if error is None:
                    done.set_result(None)
                else:
                    known = error if isinstance(error, AuditError) else AuditError("the audit log cannot be written")
                    done.set_exception(AuditError(known.message, hint=known.hint))

    def append(self, records: Sequence[Record]) -> None:
        """Write records and wait until they are on the disk."""
        with self._lock:
            try:
                self._append(records)
            except (OSError, ValueError, TypeError) as error:
                raise _unusable(self.path, error) from None

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        with self._lock:
            self._close()

    # ---- the file; the lock is held

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._broken = self._broken or "it was closed"

    def _append(self, records: Sequence[Record]) -> None:
        if self._broken is not None:
            raise AuditError(f"the audit log {self.path} is not used any more: {self._broken}", hint=RESTART)
        if self._chain.size >= self._rotate:
            self._put_aside()
        chain, lines = self._chain, []
        for record in records:
            line, chain = seal_entry(record.entry(chain.lines + 1, datetime.now(UTC)), chain)
            lines.append(line)
        self._put(b"".join(lines), chain)

    def _put(self, data: bytes, chain: Chain) -> None:
        """Write bytes after what is there, all of them or none."""
        found = os.fstat(self._descriptor)
        if found.st_size != self._chain.size or _state(self.path) != (found.st_dev, found.st_ino):
            self._broken = "another program has changed or moved it"
            raise AuditError(f"the audit log {self.path} was changed or moved by another program", hint=RESTART)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            try:
                os.ftruncate(self._descriptor, self._chain.size)
            except OSError:
                self._broken = "a line was cut off"
            raise
        try:
            os.fsync(self._descriptor)
        except OSError:
            # What the disk has now is not known, and a second fsync would not tell.
            self._broken = "the disk did not keep it"
            raise
        self._chain = chain

    def _open(self) -> None:
        self._descriptor = _opened(self.path)
        data = _content(self._descriptor)
        whole = data[: data.rfind(b"\n") + 1]
        torn = data[len(whole) :]
        aside = parts(self.path)
        before = last_of(aside[-1]).next_part if aside else None
        if whole:
            self._chain = read_chain(self.path, whole, before)
        if torn:
            self._keep_torn(torn, len(whole))
        if not whole:
            self._begin(before or Chain())
        if torn:
            digest = hashlib.sha256(torn).hexdigest()
            shape = f"a crash cut off a line: {len(torn)} bytes, sha256 {digest}, kept in {self.recovered}"
            self._append([Record("", "", "server", "failed", "server", "recovered", shape, sqlstate="58030")])

    def _keep_torn(self, torn: bytes, at: int) -> None:
        aside = self.path.with_name(f"{self.path.name}.torn-{hashlib.sha256(torn).hexdigest()[:12]}")
        # Written anew if a crash came between: it has the same name then, and the same content.
        with open(os.open(aside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as opened:
            opened.write(torn)
            opened.flush()
            os.fsync(opened.fileno())
        _sync_folder(self.path.parent)
        os.ftruncate(self._descriptor, at)
        os.fsync(self._descriptor)
        self.recovered = aside

    def _begin(self, before: Chain) -> None:
        """The first line of a file: which part of the log it is, and what it follows."""
        self._chain = before
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        head = {"n": before.lines + 1, "time": at, "audit": 1, "part": before.part, "follows": before.hash}
        self._put(*seal_entry(head, self._chain))
        _sync_folder(self.path.parent)

    def _put_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.{self._chain.part:06d}")
        if aside.exists():
            raise AuditError(f"{aside} is there already", hint="move it elsewhere: the audit log needs the name")
        os.rename(self.path, aside)
        os.close(self._descriptor)
        self._descriptor = -1
        try:
            self._descriptor = _opened(self.path)
            self._begin(self._chain.next_part)
        except BaseException:
            self._broken = "a new file could not be created"
            raise


RESTART = "nothing is answered until the server is started again, with a log that it can write"


def _unusable(path: Path, error: Exception) -> AuditError:
    said = error.strerror if isinstance(error, OSError) else "a record is not valid"
    return AuditError(f"the audit log {path} cannot be used: {said}", hint="nothing is answered without it")


def _opened(path: Path) -> int:
    import fcntl

    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise AuditError(f"{path} is not a file", hint="look at 'audit' of serve")
        if found.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
            raise AuditError(f"others may change or read the audit log {path}", hint=f"run 'chmod 600 {path}'")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AuditError(
                f"another server writes the audit log {path}", hint="give each a file of its own"
            ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    made = bytearray()
    while len(made) < size:
        more = os.pread(descriptor, size - len(made), len(made))
        if not more:
            break
        made += more
    return bytes(made)


def _state(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = ["AuditError", "AuditHead", "AuditLog", "Record", "recent", "verify"]
