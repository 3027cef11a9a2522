"""The chain of the audit log: how lines are sealed and checked, and how the latest are read.

hash = sha256(hash of the line before, as hex text + the line up to its own hash)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sqlanon.errors import SqlanonError

GENESIS = "0" * 64
LINE = re.compile(rb'(\{"n":([1-9][0-9]*),[^\n]*),"hash":"([0-9a-f]{64})"\}')
SCAN = 32 * 2**20  # bytes that are looked through for the latest records
BLOCK = 2**16


class AuditError(SqlanonError):
    """The audit log cannot be written or is damaged: nothing is answered."""

    sqlstate = "58030"


class AuditHead(NamedTuple):
    """How far a log has come: note it down elsewhere, and a later `verify` finds whether lines are missing."""

    lines: int
    hash: str


@dataclass(frozen=True)
class Chain:
    """Where a file of the log has come to: lines of all parts, the last hash, its own bytes, and which part it is."""

    lines: int = 0
    hash: str = GENESIS
    size: int = 0
    part: int = 1
    met: bool = False  # it has passed the line that was asked for

    @property
    def next_part(self) -> Chain:
        return Chain(self.lines, self.hash, 0, self.part + 1)


def seal_entry(entry: dict[str, Any], chain: Chain) -> tuple[bytes, Chain]:
    """The line of an entry, and the chain with it. Plain ASCII: no letter in it can end a line or begin another."""
    text = json.dumps(entry, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    body = text[:-1].encode()
    digest = hashlib.sha256(chain.hash.encode() + body).hexdigest()
    line = body + f',"hash":"{digest}"}}\n'.encode()
    return line, Chain(chain.lines + 1, digest, chain.size + len(line), chain.part)


def parts(path: Path) -> list[Path]:
    """The files that were put aside, the oldest first."""
    name = re.compile(re.escape(path.name) + r"\.[0-9]{6}")
    try:
        return sorted(each for each in path.parent.iterdir() if name.fullmatch(each.name))
    except OSError:
        return []


def last_of(part: Path) -> Chain:
    """Where a part that was put aside ends; its lines before are not looked at."""
    with open(part, "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - 2**20))
        lines = opened.read().split(b"\n")
    found = LINE.fullmatch(lines[-2]) if len(lines) > 1 and not lines[-1] else None
    if found is None:
        raise AuditError(f"the audit log {part} is damaged at its end", hint=TAMPERED)
    return Chain(int(found[2]), found[3].decode(), size, int(part.suffix[1:]))


def read_chain(path: Path, data: bytes, before: Chain | None, known: AuditHead | None = None) -> Chain:
    """Check the lines of one file, which follow those before it; of the first file that is there, None."""
    lines, digest, part, met = 0, "", 0, False
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        found = LINE.fullmatch(line)
        if found is None:
            raise _broken(path, number)
        if number == 1:
            start = _start(path, line)
            if before is not None and (start.lines, start.hash, start.part) != (before.lines, before.hash, before.part):
                raise AuditError(f"the audit log {path} does not follow the part before it", hint=TAMPERED)
            lines, digest, part = start.lines, start.hash, start.part
        lines += 1
        if int(found[2]) != lines or hashlib.sha256(digest.encode() + found[1]).hexdigest() != found[3].decode():
            raise _broken(path, number)
        digest = found[3].decode()
        met = met or known == (lines, digest)
    return Chain(lines, digest, len(data), part, met)


def _start(path: Path, line: bytes) -> Chain:
    try:
        head = json.loads(line)
        if head["audit"] == 1 and re.fullmatch("[0-9a-f]{64}", head["follows"]):
            return Chain(int(head["n"]) - 1, head["follows"], 0, int(head["part"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise _broken(path, 1)


def verify(path: str | os.PathLike[str], known: AuditHead | None = None) -> AuditHead:
    """Check every line of the log and of the parts that were put aside; raises AuditError at the first that is wrong.

    `known` is a Head from before: that the log has gone on from there, and was not cut short or written anew.
    """
    file = Path(path)
    chain: Chain | None = None
    met = known is None
    for each in [*parts(file), file]:
        try:
            data = each.read_bytes()
        except OSError as error:
            raise AuditError(f"the audit log {each} cannot be read: {error.strerror}") from None
        if not data.endswith(b"\n"):
            hint = "a crash cuts a line off; a server that starts keeps it aside, and says so in the log"
            raise AuditError(f"the audit log {each} ends in the middle of a line", hint=hint)
        chain = read_chain(each, data, chain.next_part if chain else None, known)
        met = met or chain.met
    assert chain is not None
    if known is not None and not met:
        raise AuditError(f"the audit log {file} does not hold line {known.lines} as it was", hint=TAMPERED)
    return AuditHead(chain.lines, chain.hash)


TAMPERED = "it was changed, or is not the one that was written; look for its backup, and put this one aside"


def _broken(path: Path, line: int) -> AuditError:
    return AuditError(f"the audit log {path} is damaged at line {line}", hint=TAMPERED)


# ---- the latest records


def recent(path: Path, principal: str | None, limit: int) -> list[dict[str, Any]]:
    """The latest records of a principal, or of all, the newest first; no more than the last few megabytes are read."""
    made: list[dict[str, Any]] = []
    for line in _backwards(path):
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # a line that is being written
        if "audit" in entry or (principal is not None and entry.get("principal") != principal):
            continue
        made.append(entry)
        if len(made) == limit:
            break
    return made


def _backwards(path: Path) -> Iterator[bytes]:
    """The lines of the log, the last first."""
    left = SCAN
    for each in [path, *reversed(parts(path))]:
        try:
            opened = open(each, "rb")  # noqa: SIM115 - closed below
        except OSError:
            continue
        with opened:
            at = opened.seek(0, os.SEEK_END)
            rest = b""
            while at > 0 and left > 0:
                size = min(BLOCK, at)
                at -= size
                left -= size
                opened.seek(at)
                first, *lines = (opened.read(size) + rest).split(b"\n")
                yield from (line for line in reversed(lines) if line)
                rest = first
            if at == 0 and rest:
                yield rest
