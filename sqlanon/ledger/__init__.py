"""The ledger: how much privacy was spent, by whom. Append-only, durable, and closed when in doubt.

A charge is on the disk before the data is read; nothing gives it back. A crash may waste budget, it never gives an
answer for free. What cannot be read, or is damaged, answers nothing; it never counts as unspent.

What is found: rows that were changed, removed or put in anywhere (the chain of hashes), rows missing at the end (the
head counts them), changed tables and triggers, broken pages, a file that is removed, replaced or put back while a
`Ledger` is open. A file with few events is checked as a whole when it is opened, a larger one at its end; before the
first sum all of it is, and from then on whatever is new.

An older copy of the whole file that is put back is found by the head in the file beside it (`anchor`), each time a
ledger is opened; a ledger without that file is refused.

What cannot be found: that both are older copies (keep the `Head` that `verify` returns elsewhere, and hand it back to
find that); that someone who can write the file has written a new chain (the hashes have no secret); that the clock is
ahead, which renews a budget early (one that went back does not: charges in the future count today). `policy` is noted,
not told apart: charges under an earlier policy count; other data, another file.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from sqlanon.errors import BudgetExhausted, LedgerError, PolicyError
from sqlanon.ledger import store
from sqlanon.ledger.amounts import ZERO, Sums, charge
from sqlanon.ledger.anchor import RECOVER, Anchor, head_file, read_anchor, write_anchor
from sqlanon.ledger.book import NAMES, NEVER_FROM_ZERO, Book, Event, Head, Row, event, genesis, integrity_error, link
from sqlanon.ledger.limits import Left, Limits, format_time, moment, span
from sqlanon.mechanisms import Cost

__all__ = ["BudgetExhausted", "Cost", "Event", "Head", "Ledger", "LedgerError", "Left", "Limits"]

COLUMNS = ", ".join(f'"{name}"' for name in (*NAMES, "hash"))
MARKS = ", ".join("?" * (len(NAMES) + 1))
MOST_KEPT = 10_000  # texts of one principal, above which none is filed without a charge
TAIL = 200  # events: as many are checked in a millisecond or two
T = TypeVar("T")


class Ledger:
    """One file. May be used from several threads, and by several processes at a time; a fork opens it anew."""

    def __init__(self, path: str | os.PathLike[str], *, wait: float = 30.0, anchored: bool = True) -> None:
        self.path = Path(path)
        self._wait = wait
        self._anchored = anchored
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._connect()

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Ledger:
        """A new, empty ledger; refuses where a file is."""
        store.make(Path(path))
        return cls(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, wait: float = 30.0) -> Ledger:
        """A ledger that is there; `wait` is how many seconds another process may hold it."""
        return cls(path, wait=wait)

    @classmethod
    def anchor(cls, path: str | os.PathLike[str], *, by: str, reason: str) -> Head:
        """Let a ledger count as it is, though its head beside it is lost, or says that it had come further.

        All of it is checked, and that it was done is an event of it.
        """
        with cls(path, anchored=False) as ledger:
            ledger.verify()
            kept = _kept(ledger.path)
            said = f"anchored anew: {reason} (the head was {kept})"
            ledger.grant("*", Cost(), by=by, reason=said)
            head = ledger.verify()
            write_anchor(ledger.path, Anchor(ledger._book.ledger, head), anew=True)
            if ledger._version() != store.SCHEMA:
                with ledger._using() as connection:
                    store.begin_anchor(connection, ledger.path)
            return head

    def reserve(
        self,
        principal: str,
        cost: Cost,
        limits: Limits,
        *,
        shape: str,
        fingerprint: str,
        policy: str,
        at: datetime | None = None,
    ) -> Left:
        """Charge a cost, or raise BudgetExhausted. When it returns the charge is on the disk, and stays."""
        when, amounts = moment(at), charge(cost)
        if amounts.in_rho and limits.accounting == "basic":
            raise PolicyError("a cost in rho alone has no epsilon for basic composition", hint="account with zcdp")

        def add(connection: sqlite3.Connection, book: Book) -> Left:
            start, end = span(when, limits.period)
            own, total = limits.own(book.granted(principal, start, end)), limits.total()
            sums, everyone = book.charged(principal, start), book.charged(None, None)
            if refusal := own.refusal(f"analyst '{principal}'", sums, amounts, end):
                raise refusal
            if refusal := total.refusal("all analysts together", everyone, amounts, None):
                raise refusal
            texts = {name: f"{value:f}" for name, value in zip(("epsilon", "delta", "rho"), amounts[:3], strict=True)}
            entry = {"shape": shape, "fingerprint": fingerprint, "policy": policy, **texts}
            place = self._append(connection, book, format_time(when), "charge", principal, **entry)
            return _left(limits, book, principal, when, amounts, place)

        return self._write(add)

    def left(self, principal: str, limits: Limits, at: datetime | None = None) -> Left:
        """What a principal has spent and may still spend in the current period."""
        when = moment(at)
        return self._read(lambda _, book: _left(limits, book, principal, when, Sums(), 0))

    def spent_ever(self, principal: str | None, limits: Limits) -> Cost:
        """What a principal has spent in all periods together, or all principals for None."""

        def add(_: sqlite3.Connection, book: Book) -> Cost:
            sums = book.charged(principal, None)
            epsilon = float(limits.own(Sums()).spent(sums))
            return Cost(epsilon, float(sums.delta), float(sums.rho))

        return self._read(add)

    def settle(
        self,
        reservation: Left | int,
        outcome: str,
        *,
        answers: Mapping[str, str] | None = None,
        filed: Sequence[tuple[str, str]] = (),
        at: datetime | None = None,
    ) -> None:
        """Note how a charge ended, once: 'answered' or 'failed'. The charge stays in either case.

        What it paid for is kept in the same transaction, by key as `remember` does, and in files as `file` does.
        """
        if outcome not in ("answered", "failed"):
            raise PolicyError(f"unknown outcome '{outcome}'", hint="it is answered or failed")
        place = reservation.event if isinstance(reservation, Left) else reservation
        when = moment(at)

        def add(connection: sqlite3.Connection, book: Book) -> None:
            found = connection.execute("SELECT principal FROM events WHERE id = ? AND kind = 'charge'", [place])
            if (row := found.fetchone()) is None:
                raise PolicyError(f"event {place} of the ledger is not a charge")
            if connection.execute("SELECT 1 FROM events WHERE settles = ?", [place]).fetchone():
                raise PolicyError(f"event {place} of the ledger is already settled")
            self._append(connection, book, format_time(when), outcome, row[0], settles=place)
            for key, answer in (answers or {}).items():
                _keep(connection, key, row[0], answer)
            for name, text in filed:
                _file(connection, name, row[0], text)

        self._write(add)
        self._carry_over()

    def grant(self, principal: str, cost: Cost, *, by: str, reason: str, at: datetime | None = None) -> None:
        """Raise a principal's own limit in the period of that time; for ever where there is no period."""
        when, amounts = moment(at), charge(cost)
        if cost.rho:
            raise PolicyError("a grant is of epsilon and delta, not of rho", hint="limits are in epsilon and delta")
        entry = {"epsilon": f"{amounts.epsilon:f}", "delta": f"{amounts.delta:f}", "by": by, "reason": reason}
        self._write(
            lambda connection, book: self._append(connection, book, format_time(when), "grant", principal, **entry)
        )
        self._carry_over()

    def failures(self, principal: str, running: float, at: datetime | None = None) -> int:
        """How many charges of the last day failed, since a principal was unlocked.

        One that was never settled has failed, too, if it is older than `running` seconds: no statement runs longer.
        """
        when = moment(at)
        since, before = when - timedelta(days=1), when - timedelta(seconds=running)
        return self._read(lambda _, book: book.failures(principal, since, before))

    def unlock(self, principal: str, *, by: str, reason: str, at: datetime | None = None) -> None:
        """Forgive the failures of a principal: a grant of nothing, which says who did it and why."""
        self.grant(principal, Cost(), by=by, reason=reason, at=at)

    def history(self, principal: str | None = None, limit: int | None = None) -> list[Event]:
        """Events, the oldest first; with a limit, the latest of them."""
        where = "" if principal is None else "WHERE principal = ?"
        query = f"SELECT {COLUMNS} FROM events {where} ORDER BY id DESC LIMIT ?"
        values = [*([] if principal is None else [principal]), -1 if limit is None else max(0, limit)]
        rows = self._read(lambda connection, _: connection.execute(query, values).fetchall())
        return [event(row) for row in reversed(rows)]

    def export(self) -> Iterator[dict[str, Any]]:
        """All events with exact amounts and hashes, so that the chain can be checked elsewhere; verifies first."""
        head = self.verify()
        previous = genesis(self._book.ledger)
        for done in range(0, head.events, 1000):
            with self._using() as connection:
                rows = _after(connection, done, min(1000, head.events - done)).fetchall()
            for row in rows:
                yield {**dict(zip((*NAMES, "hash"), row, strict=True)), "previous": previous}
                previous = row[-1]

    def verify(self, known: Head | None = None) -> Head:
        """Check every page and every event. With a head from before: also that the file was not put back since."""

        def check(connection: sqlite3.Connection, book: Book) -> Head:
            store.check_pages(connection, self.path)
            fresh = Book(book.ledger, self.path)
            fresh.read(_after(connection, 0))
            if fresh.head != _head(connection)[1]:
                raise integrity_error(fresh.head.events + 1, self.path)
            if known is not None:
                self._follows(connection, known)
            return fresh.head

        return self._read(check)

    @property
    def secret(self) -> int:
        """A random number that belongs to this ledger, to key hashes with."""
        with self._using() as connection:
            return int(connection.execute("SELECT secret FROM head").fetchone()[0])

    def cached(self, key: str) -> str | None:
        """The answer that was given to the same question, or None."""
        query = "SELECT answer, hash FROM answers WHERE key = ?"
        with self._using() as connection:
            row = connection.execute(query, [key]).fetchone()
        # An answer that was damaged is no answer: it is asked, and paid, again.
        return row[0] if row and _digest(key, row[0]) == row[1] else None

    def remember(self, key: str, principal: str, answer: str) -> None:
        """Keep an answer. The first one stays: two askers of one question get the same bytes."""
        with self._using() as connection:
            _keep(connection, key, principal, answer)

    def file(self, principal: str, filed: Sequence[tuple[str, str]]) -> None:
        """Put texts behind those that are in a file already, in one transaction; what is there twice is kept once.

        It takes no charge, and so a principal for whom very much is kept already gets no more.
        """

        def add(connection: sqlite3.Connection, _: Book) -> None:
            kept = connection.execute("SELECT COUNT(*) FROM answers WHERE principal = ?", [principal]).fetchone()[0]
            if kept >= MOST_KEPT:
                return
            for name, text in filed:
                _file(connection, name, principal, text)

        self._write(add)

    def filed(self, name: str) -> list[str]:
        """The texts of a file, the oldest first. One that was damaged is none."""
        with self._using() as connection:
            return [answer for key, answer, digest in _in_file(connection, name) if _digest(key, answer) == digest]

    def keep_query(self, text: str) -> str:
        """Keep an exact query for ever; gives the fingerprint to charge it under. Kept before it is charged:
        a charge never lacks its query."""
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        with self._using() as connection:
            connection.execute("INSERT INTO queries VALUES (?, ?) ON CONFLICT DO NOTHING", [fingerprint, text])
        return fingerprint

    def query_of(self, fingerprint: str) -> str:
        """The exact query of a charge. One that is lost or damaged is an error: it must not count as never asked."""
        with self._using() as connection:
            row = connection.execute("SELECT query FROM queries WHERE fingerprint = ?", [fingerprint]).fetchone()
        if row is None or hashlib.sha256(str(row[0]).encode()).hexdigest() != fingerprint:
            raise LedgerError(f"the ledger {self.path} is damaged: an exact query is missing", hint=NEVER_FROM_ZERO)
        return str(row[0])

    def forget(self, older_than: datetime | None = None) -> int:
        """Remove answers, all or those from before a time; how many. What they cost stays spent."""
        where, values = ("", []) if older_than is None else (" WHERE at < ?", [format_time(moment(older_than))])
        with self._using() as connection:
            return connection.execute(f"DELETE FROM answers{where}", values).rowcount

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> None:
        self._process = os.getpid()
        self._file = _identity(self.path)
        # Before the ledger is looked at: meanwhile others may take both further, never back.
        kept = read_anchor(self.path) if self._anchored else None
        self._connection = connection = store.connect(self.path, self._wait)
        try:
            with store.translate_errors(self.path, self._wait):
                if self._anchored and kept is None:
                    if self._version() == store.SCHEMA:
                        raise LedgerError(f"the head of the ledger, {head_file(self.path)}, is gone", hint=RECOVER)
                    store.begin_anchor(connection, self.path)
                connection.execute("BEGIN")
                ledger, head = _head(connection)
                self._book = Book(ledger, self.path)
                if head.events <= TAIL:
                    self._catch_up(connection)
                else:
                    _check_tail(connection, head, self.path)
                if kept is not None:
                    self._require_anchor(connection, ledger, kept)
                connection.execute("COMMIT")
                if self._anchored and self._version() != store.SCHEMA:
                    store.begin_anchor(connection, self.path)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread, if it still leads to the file of that name."""
        if self._connection is not None and self._process != os.getpid():
            # A connection does not survive a fork. It is left alone, not closed: its locks are the parent's.
            _INHERITED.append(self._connection)
            self._lock = threading.RLock()
            self._connect()
        with self._lock, store.translate_errors(self.path, self._wait):
            if self._connection is None:
                raise LedgerError(f"the ledger {self.path} is closed", hint="Open it again.")
            if _identity(self.path) != self._file:
                raise LedgerError(f"the ledger {self.path} was removed or replaced", hint=NEVER_FROM_ZERO)
            try:
                yield self._connection
            except UnicodeEncodeError as error:
                raise PolicyError(f"text that is not Unicode cannot be kept: {error}") from error

    def _read(self, ask: Callable[[sqlite3.Connection, Book], T]) -> T:
        return self._transact("BEGIN", ask)

    def _write(self, add: Callable[[sqlite3.Connection, Book], T]) -> T:
        self._transact("BEGIN", lambda *_: None)  # reads what is new before others have to wait
        return self._transact("BEGIN IMMEDIATE", add)

    def _transact(self, begin: str, work: Callable[[sqlite3.Connection, Book], T]) -> T:
        with self._using() as connection:
            connection.execute(begin)
            try:
                self._catch_up(connection)
                result = work(connection, self._book)
                head = _head(connection) if begin == "BEGIN IMMEDIATE" else None
                connection.execute("COMMIT")
                if head is not None and self._anchored:
                    write_anchor(self.path, Anchor(*head))
                return result
            except BaseException:
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Read the events that are new, and see that the others are still those that were read."""
        book, self._book = self._book, Book(self._book.ledger, self.path)  # begin anew if this does not succeed
        self._follows(connection, book.head)
        book.read(_after(connection, book.head.events))
        if (head := _head(connection)) != (book.ledger, book.head):
            raise integrity_error(min(head[1].events, book.head.events) + 1, self.path)
        self._book = book

    def _carry_over(self) -> None:
        """Bring the main file up to date. What fails here is on the disk already, and shows in the next call."""
        with suppress(LedgerError), self._using() as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _version(self) -> int:
        with self._using() as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])

    def _require_anchor(self, connection: sqlite3.Connection, ledger: str, kept: Anchor) -> None:
        if kept.ledger != ledger:
            raise LedgerError(f"the ledger {self.path} does not belong to {head_file(self.path)}", hint=RECOVER)
        row = connection.execute("SELECT hash FROM events WHERE id = ?", [kept.head.events]).fetchone()
        if kept.head.events and (row is None or row[0] != kept.head.hash):
            raise LedgerError(
                f"the ledger {self.path} is an older copy: by {head_file(self.path)} it had {kept.head.events} "
                "events, which it does not have now",
                hint=RECOVER,
            )

    def _follows(self, connection: sqlite3.Connection, known: Head) -> None:
        row = connection.execute("SELECT hash FROM events WHERE id = ?", [known.events]).fetchone()
        if (row is None and known.events > 0) or (row is not None and row[0] != known.hash):
            raise LedgerError(
                f"the ledger {self.path} is an older copy: it had {known.events} events, which it does not have now",
                hint=NEVER_FROM_ZERO,
            )

    def _append(
        self, connection: sqlite3.Connection, book: Book, at: str, kind: str, principal: str, **entry: Any
    ) -> int:
        row = Row(book.head.events + 1, at, kind, principal, **entry)
        connection.execute(f"INSERT INTO events ({COLUMNS}) VALUES ({MARKS})", row.sealed(book.head.hash))
        # What SQLite gives back is what is hashed from now on: a value that it keeps otherwise would break the chain.
        kept = connection.execute(f"SELECT {COLUMNS} FROM events WHERE id = ?", [row.id]).fetchone()
        if link(book.head.hash, kept[:-1]) != kept[-1]:
            raise PolicyError("an event has values of a wrong type", hint="names, shapes and reasons are text")
        return row.id


_INHERITED: list[sqlite3.Connection] = []


def _kept(path: Path) -> str:
    """The head beside a ledger, for people."""
    try:
        found = read_anchor(path)
    except LedgerError:
        return "damaged"
    return f"{found.head.events}:{found.head.hash}" if found is not None else "lost"


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _digest(key: str, answer: str) -> str:
    return hashlib.sha256(f"{key}\0{answer}".encode(errors="surrogatepass")).hexdigest()


def _keep(connection: sqlite3.Connection, key: str, principal: str, answer: str) -> None:
    values = [key, format_time(moment(None)), principal, answer, _digest(key, answer)]
    connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", values)


def _file(connection: sqlite3.Connection, name: str, principal: str, text: str) -> None:
    known = _in_file(connection, name)
    if text not in (each for _, each, _ in known):
        place = int(known[-1][0].rpartition(":")[2]) + 1 if known else 0
        _keep(connection, f"{name}:{place:012d}", principal, text)


def _in_file(connection: sqlite3.Connection, name: str) -> list[tuple[str, str, str]]:
    # The sign after ':' is ';': all keys between them begin with the name and ':'.
    query = "SELECT key, answer, hash FROM answers WHERE key >= ? AND key < ? ORDER BY key"
    return connection.execute(query, [f"{name}:", f"{name};"]).fetchall()


def _head(connection: sqlite3.Connection) -> tuple[str, Head]:
    rows = connection.execute("SELECT ledger, events, hash FROM head").fetchall()
    if len(rows) != 1:
        raise sqlite3.DatabaseError("its head is missing")
    return rows[0][0], Head(*rows[0][1:])


def _after(connection: sqlite3.Connection, event: int, limit: int = -1) -> sqlite3.Cursor:
    return connection.execute(f"SELECT {COLUMNS} FROM events WHERE id > ? ORDER BY id LIMIT ?", [event, limit])


def _check_tail(connection: sqlite3.Connection, head: Head, path: Path) -> None:
    rows = _after(connection, head.events - TAIL).fetchall()
    for before, row in pairwise(rows):
        if row[0] != before[0] + 1 or link(before[-1], row[:-1]) != row[-1]:
            raise integrity_error(before[0] + 1, path)
    if not rows or (rows[-1][0], rows[-1][-1]) != head:
        raise integrity_error(head.events, path)


def _left(limits: Limits, book: Book, principal: str, when: datetime, added: Sums, place: int) -> Left:
    start, end = span(when, limits.period)
    sums, everyone = book.charged(principal, start).plus(added), book.charged(None, None).plus(added)
    own, total = limits.own(book.granted(principal, start, end)), limits.total()
    least = [
        float(min((each for each in pair if each is not None), default=ZERO))
        for pair in zip(own.left(sums), total.left(everyone), strict=True)
    ]
    return Left(Cost(float(own.spent(sums)), float(sums.delta), float(sums.rho)), Cost(*least), end, place)
