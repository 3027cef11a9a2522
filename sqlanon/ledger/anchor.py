"""The head of a ledger, kept in a file of its own beside it: an older copy of the ledger that is put back is found.

After each commit, and before anybody is answered, the head goes into `FILE.head`. The ledger may be ahead of it, where
a process was killed between the two; it is never behind. Two slots are written in turn, so that a torn write leaves the
other one. Nothing is synced: after a loss of power the head may be an older one, and then finds a little less.

It does not detect that the ledger and its head were put back together: keep the two in different backups.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlanon.errors import LedgerError
from sqlanon.ledger.book import Head

SLOT = 512  # bytes: a disk writes so many at once
MARK = "sqlanon head 1"


class Anchor(NamedTuple):
    """How far which ledger had come."""

    ledger: str
    head: Head


def head_file(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + ".head")


def read_anchor(ledger: Path) -> Anchor | None:
    """The newest head that was kept; None if there is no file. One that cannot be read is an error."""
    path = head_file(ledger)
    try:
        with _locked(path, os.O_RDONLY) as file:
            found = _newest(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(f"the head of the ledger, {path}, cannot be read: {error.strerror}", hint=RECOVER) from error
    if found is None:
        raise LedgerError(f"the head of the ledger, {path}, is damaged", hint=RECOVER)
    return found[0]


def write_anchor(ledger: Path, anchor: Anchor, *, anew: bool = False) -> None:
    """Keep a head, unless a later one of the same ledger is there; `anew` in place of whatever is there."""
    path = head_file(ledger)
    try:
        with _locked(path, os.O_RDWR | os.O_CREAT) as file:
            found = None if anew else _newest(file)
            if found is not None and (found[0].ledger != anchor.ledger or found[0].head.events >= anchor.head.events):
                return
            slots = (0, 1) if found is None else (1 - found[1],)
            for slot in slots:
                os.pwrite(file, _written(anchor), slot * SLOT)
    except OSError as error:
        raise LedgerError(
            f"the head of the ledger, {path}, cannot be written: {error.strerror}",
            hint="Nothing was answered. The folder of the ledger must be writable for the user that runs the gateway.",
        ) from error


RECOVER = (
    "The gateway answers nothing until the ledger is repaired. Put back the newest ledger, with its -wal and .head. "
    "If that is lost, lower the limits of the policy by what was answered since, and then let the ledger count as "
    "it is: 'sqlanon budget anchor POLICY --reason …'."
)


@contextmanager
def _locked(path: Path, flags: int) -> Iterator[int]:
    file = os.open(path, flags, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX if flags & os.O_RDWR else fcntl.LOCK_SH)
        yield file
    finally:
        os.close(file)


def _written(anchor: Anchor) -> bytes:
    text = f"{MARK}\n{anchor.ledger}\n{anchor.head.events}\n{anchor.head.hash}\n"
    made = f"{text}{hashlib.sha256(text.encode()).hexdigest()}\n".encode()
    return made.ljust(SLOT, b"\n")


def _newest(file: int) -> tuple[Anchor, int] | None:
    """The newest head of the two slots, and its slot."""
    found: list[tuple[Anchor, int]] = []
    for slot in (0, 1):
        data = os.pread(file, SLOT, slot * SLOT)
        try:
            mark, ledger, events, digest, checked = data.decode("ascii").split("\n")[:5]
            anchor = Anchor(ledger, Head(int(events), digest))
        except ValueError:
            continue
        if mark == MARK and data == _written(anchor) and checked:
            found.append((anchor, slot))
    return max(found, key=lambda item: item[0].head.events, default=None)
