"""The record of refreshes: one file, safe for several schedulers. A time that is due is claimed by exactly one.

A claim is on the disk before the work begins. Its owner says again and again that it is alive; one that does not for
`LEASE` is taken to be dead, and another may try again. Two never work on one release at the same time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlanon.errors import LedgerError
from sqlanon.families import sql_root

LEASE = timedelta(seconds=60)
NAMES = "id, release, due, attempt, outcome, started, ended, message, version, plan_hash"


@dataclass(frozen=True)
class Run:
    """A refresh that ran or runs; times are in UTC."""

    id: int
    release: str
    due: datetime
    attempt: int
    outcome: str
    started: datetime
    ended: datetime | None
    message: str | None
    version: int | None
    plan_hash: str | None


class Runs:
    def __init__(self, path: Path, *, wait: float = 30.0) -> None:
        self.path = path
        self._wait = wait
        with self._open() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript((sql_root() / "state" / "runs.sql").read_text(encoding="utf-8"))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=self._wait, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "") or "it cannot be read"
            raise LedgerError(
                f"the record of runs {self.path} cannot be used ({name})", hint="nothing was refreshed"
            ) from None

    def claim(self, release: str, due: datetime, owner: str, now: datetime, *, attempts: int) -> Run | None:
        """The right to refresh a release for a time; None if somebody has it, had it, or works on the release now.

        A try that failed, or whose owner died, may be followed by another, up to `attempts` in all."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "UPDATE runs SET outcome = 'lost', ended = ?, message = 'its process died, or stood still' "
                "WHERE release = ? AND outcome = 'running' AND alive < ?",
                [_text(now), release, _text(now)],
            )
            running = connection.execute(
                "SELECT 1 FROM runs WHERE release = ? AND outcome = 'running'", [release]
            ).fetchone()
            past = connection.execute(
                "SELECT outcome FROM runs WHERE release = ? AND due = ? ORDER BY attempt", [release, _text(due)]
            ).fetchall()
            tried = [outcome for (outcome,) in past]
            again = all(outcome in ("failed", "lost") for outcome in tried)
            if running or not again or len(tried) >= attempts:
                connection.execute("COMMIT")
                return None
            made = connection.execute(
                "INSERT INTO runs (release, due, attempt, outcome, owner, started, alive) "
                f"VALUES (?, ?, ?, 'running', ?, ?, ?) RETURNING {NAMES}",
                [release, _text(due), len(tried) + 1, owner, _text(now), _text(now + LEASE)],
            ).fetchone()
            connection.execute("COMMIT")
        return _run(made)

    def alive(self, run: Run, now: datetime) -> bool:
        """Say that the owner is alive; False if it was taken to be dead, and must not go on."""
        with self._open() as connection:
            changed = connection.execute(
                "UPDATE runs SET alive = ? WHERE id = ? AND outcome = 'running'", [_text(now + LEASE), run.id]
            )
            return changed.rowcount == 1

    def finish(
        self, run: Run, outcome: str, now: datetime, *, message: str = "", version: int | None = None, plan: str = ""
    ) -> None:
        with self._open() as connection:
            connection.execute(
                "UPDATE runs SET outcome = ?, ended = ?, message = ?, version = ?, plan_hash = ? "
                "WHERE id = ? AND outcome = 'running'",
                [outcome, _text(now), message or None, version, plan or None, run.id],
            )

    def unsettled(self, number: int) -> Run | None:
        """A run that never said how it ended, if it is one."""
        query = f"SELECT {NAMES} FROM runs WHERE id = ? AND outcome IN ('running', 'lost')"
        with self._open() as connection:
            row = connection.execute(query, [number]).fetchone()
        return None if row is None else _run(row)

    def settle(self, run: Run, now: datetime, *, version: int | None, plan: str) -> None:
        """Note that a run had done its work before its process died: its release is out."""
        with self._open() as connection:
            connection.execute(
                "UPDATE runs SET outcome = 'done', ended = ?, message = 'its process died afterwards', version = ?, "
                "plan_hash = ? WHERE id = ? AND outcome IN ('running', 'lost')",
                [_text(now), version, plan, run.id],
            )

    def forget(self, run: Run) -> None:
        """Give a claim back, as if it had never been."""
        with self._open() as connection:
            connection.execute("DELETE FROM runs WHERE id = ? AND outcome = 'running'", [run.id])

    def last_due(self, release: str) -> datetime | None:
        """The latest time for which there was a refresh that ended, well or refused for good."""
        query = "SELECT MAX(due) FROM runs WHERE release = ? AND outcome IN ('done', 'refused')"
        with self._open() as connection:
            found = connection.execute(query, [release]).fetchone()[0]
        return None if found is None else datetime.fromisoformat(found)

    def is_done(self, release: str, due: datetime) -> bool:
        query = "SELECT 1 FROM runs WHERE release = ? AND due = ? AND outcome = 'done'"
        with self._open() as connection:
            return connection.execute(query, [release, _text(due)]).fetchone() is not None

    def listed(self, release: str | None = None, limit: int = 20) -> list[Run]:
        """The newest first."""
        where, params = ("WHERE release = ?", [release]) if release is not None else ("", [])
        query = f"SELECT {NAMES} FROM runs {where} ORDER BY started DESC, id DESC LIMIT ?"
        with self._open() as connection:
            return [_run(row) for row in connection.execute(query, [*params, limit])]


def _text(moment: datetime) -> str:
    """In UTC and always equally long, so that texts sort as times do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _run(row: tuple[object, ...]) -> Run:
    number, release, due, attempt, outcome, started, ended, message, version, plan = row
    return Run(
        int(str(number)), str(release), datetime.fromisoformat(str(due)), int(str(attempt)), str(outcome),
        datetime.fromisoformat(str(started)), None if ended is None else datetime.fromisoformat(str(ended)),
        None if message is None else str(message), None if version is None else int(str(version)),
        None if plan is None else str(plan),
    )  # fmt: skip
