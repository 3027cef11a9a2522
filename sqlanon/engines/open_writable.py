"""Open a database to write to it, also while others read it.

A DuckDB file that somebody has open cannot be written. Then a copy of it is, and takes its place in one step once all
went well; whoever has the old file open goes on reading it, and sees the new one when it opens the file again.

One who was killed may have left a log beside the file (.wal). The copy has what is in it, so the log goes with the old
file. These are two steps: a note of the new file is left before the first, and whoever writes next does the second if
nobody did. DuckDB opens no file with a log of an older one, so that nobody reads a mixture.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlanon.engines import Engine, connect
from sqlanon.errors import DatabaseLocked, EngineError, SourceError
from sqlanon.policy.database_names import is_url

PATIENCE = 30.0  # seconds that a refresh waits for another one to end
AFTERWARDS = 0.2  # seconds that the old file stays locked: for who opened it just before it was replaced


@contextmanager
def open_writable(url: str | None, *, memory_limit: str | None = None, new: bool = True) -> Iterator[Engine]:
    """An engine that may write; closed at the end, and what it wrote is seen then, or never after an error. Without
    `new` the file must be there: a database that is made for a misspelt name holds no table to read."""
    path = _file(url)
    if path is None and not is_url(url or ""):
        raise SourceError(
            "a table or view needs a database to lie in, and the policy names none",
            hint="add 'database: FILE' to its source, or release to a file with 'path:'",
        )
    if path is not None and not new and not path.exists():
        connect(url).close()  # tells what is not there, and what it may be called
    if path is not None and _note(path).exists():
        os.close(_waited(path))
    try:
        engine = connect(url, read_only=False, memory_limit=memory_limit)
    except DatabaseLocked:
        assert path is not None
        with (
            _replaced(path) as copy,
            closing(connect(str(copy), read_only=False, memory_limit=memory_limit)) as engine,
        ):
            yield engine
        return
    with closing(engine):
        yield engine


def _file(url: str | None) -> Path | None:
    """The file of a DuckDB database.

    >>> _file("postgres://db/x"), _file(None), _file("duckdb:///tmp/w.duckdb").name
    (None, None, 'w.duckdb')
    """
    name = (url or ":memory:").removeprefix("duckdb://")
    return None if is_url(name) or name == ":memory:" else Path(os.path.realpath(name))


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A copy of a file, which takes its place at the end if there is no error. Meanwhile nobody can write to the file:
    what he wrote would be lost."""
    lock = _waited(path)
    copy = path.with_name(f".{path.name}.next")
    log = _log(copy)
    try:
        with path.open("rb") as original:
            try:
                # The same lock as DuckDB's own, of those who read. It is gone as soon as this process closes the file
                # anywhere else, so it is opened here once, and copied from this handle.
                fcntl.lockf(original, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                raise DatabaseLocked(
                    f"the database '{path}' is in use by another process that writes to it",
                    hint="wait until it is done",
                ) from None
            _require_same(original.fileno(), path)
            _copied(original.fileno(), copy)
            shutil.copymode(path, copy)
            if _log(path).exists():
                shutil.copy(_log(path), log)
            yield copy
            if log.exists():
                raise EngineError("the database could not be written to the end", hint="is the disk full?")
            with copy.open("rb") as written:
                os.fsync(written.fileno())
            _require_same(original.fileno(), path)
            if _log(path).exists():
                with _note(path).open("w") as note:
                    note.write(str(copy.stat().st_ino))
                    note.flush()
                    os.fsync(note.fileno())
                _synced(path.parent)
            os.replace(copy, path)
            _without_old_log(path)
            time.sleep(AFTERWARDS)
    finally:
        copy.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        os.close(lock)


def _log(path: Path) -> Path:
    return Path(f"{path}.wal")


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _without_old_log(path: Path) -> None:
    """Drop the log of the file that was replaced, if a note says that it was. The caller has the lock of `_waited`."""
    note = _note(path)
    if not note.exists():
        return
    if path.exists() and note.read_text() == str(path.stat().st_ino):
        _synced(path.parent)  # the new file is there for good before what it replaces is gone
        _log(path).unlink(missing_ok=True)
    note.unlink(missing_ok=True)


def _synced(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _require_same(opened: int, path: Path) -> None:
    """Somebody may put another file in its place by hand, which must not be lost."""
    mine, theirs = os.fstat(opened), path.stat()
    if (mine.st_dev, mine.st_ino) != (theirs.st_dev, theirs.st_ino):
        raise EngineError(f"'{path.name}' was replaced by another file meanwhile", hint="try again")


def _waited(path: Path) -> int:
    """One copy at a time: of two, one would be lost. The lock goes with its process, and what one that was killed left
    to do is done first."""
    made = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _without_old_log(path)
            return made
        except OSError:
            if time.monotonic() > until:
                os.close(made)
                raise EngineError(
                    f"another process writes a new version of '{path.name}'", hint="wait until it is done"
                ) from None
            time.sleep(0.1)


def _copied(source: int, copy: Path) -> None:
    """Inside the file system, which need not read it at all where it knows how to share blocks."""
    with copy.open("wb") as target:
        left, place = os.fstat(source).st_size, 0
        while place < left:
            done = os.copy_file_range(source, target.fileno(), left - place, offset_src=place)
            if not done:
                raise EngineError("the database could not be copied", hint="was it cut short meanwhile?")
            place += done
