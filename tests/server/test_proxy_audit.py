"""The audit log: on the disk before an answer leaves, whole after a crash, and not changed unseen."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.server import audit
from sqlanon.server.audit import AuditError, AuditHead, AuditLog, Record, recent, verify

RECORD = Record(
    "s1", "alice", "pg", "answered", kind="dp", shape="SELECT COUNT(*) FROM visits WHERE age > ?", policy="f" * 64,
    tables=("visits",), columns=("visits.age",), epsilon=0.5, delta=1e-6, withheld=2, rows=7,
)  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    made = AuditLog(tmp_path / "audit.jsonl")
    yield made
    made.close()


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def record(number: int) -> Record:
    return replace(RECORD, session=f"s{number}")


# What is written


def test_a_record_has_what_was_decided_and_nothing_else(log: AuditLog) -> None:
    log.append([RECORD])
    head, entry = entries(log.path)
    assert (head["n"], head["audit"], head["part"]) == (1, 1, 1)
    assert entry.pop("time").endswith("+00:00") and len(entry.pop("hash")) == 64
    assert entry == {
        "n": 2, "session": "s1", "principal": "alice", "door": "pg", "decision": "answered", "event": "statement",
        "kind": "dp", "shape": "SELECT COUNT(*) FROM visits WHERE age > ?", "policy": "f" * 64, "tables": ["visits"],
        "columns": ["visits.age"], "sqlstate": "00000", "epsilon": 0.5, "delta": 1e-6, "withheld": 2, "rows": 7,
        "cached": False, "simulated": "",
    }  # fmt: skip
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_it_is_on_the_disk_when_write_returns(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    write, sync = os.write, os.fsync

    def written(descriptor: int, data: Any) -> int:
        order.append("write")
        return write(descriptor, data)

    def synced(descriptor: int) -> None:
        order.append("fsync")
        sync(descriptor)

    monkeypatch.setattr(os, "write", written)
    monkeypatch.setattr(os, "fsync", synced)

    async def run() -> None:
        await log.write(RECORD)
        order.append("answer")

    asyncio.run(run())
    assert order == ["write", "fsync", "answer"]
    assert entries(log.path)[-1]["session"] == "s1"


def test_many_at_a_time_share_few_fsyncs(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    real = os.fsync

    def slow(descriptor: int) -> None:
        time.sleep(0.01)
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", slow)

    async def client(number: int) -> None:
        for turn in range(5):
            await log.write(record(number * 100 + turn))

    async def run() -> None:
        await asyncio.gather(*(client(number) for number in range(32)))

    asyncio.run(run())
    assert len(synced) <= 15  # and not 160
    found = [int(entry["session"][1:]) for entry in entries(log.path)[1:]]
    assert sorted(found) == sorted(number * 100 + turn for number in range(32) for turn in range(5))
    for number in range(32):  # each client's own in their order
        assert [each for each in found if each // 100 == number] == [number * 100 + turn for turn in range(5)]
    assert verify(log.path) == log.head == AuditHead(161, entries(log.path)[-1]["hash"])


def test_the_event_loop_goes_on_meanwhile(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: time.sleep(0.2))

    async def run() -> int:
        writing = asyncio.create_task(log.write(RECORD))
        turns = 0
        while not writing.done():
            await asyncio.sleep(0.001)
            turns += 1
        await writing
        return turns

    assert asyncio.run(run()) > 20


def test_who_stops_waiting_does_not_stop_others(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: time.sleep(0.05))

    async def run() -> None:
        gone, *others = [asyncio.create_task(log.write(record(number))) for number in range(5)]
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.gather(*others)
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(run())
    assert len(entries(log.path)) == 6  # also that of the one who has gone: more than was told, never less


HOSTILE = st.text(st.characters(), max_size=40) | st.sampled_from(
    ['x\n{"n":99}', "a\r\nb", "\x1b[31mred", "\u2028", "\x00", '","principal":"root', "\ud800", "\u202egnp", "\\n"]
)


@settings(max_examples=examples(100))
@given(HOSTILE, HOSTILE, st.lists(HOSTILE, max_size=3))
def test_no_text_forges_a_line(tmp_path: Path, name: str, shape: str, tables: list[str]) -> None:
    path = tmp_path / hashlib.sha256(repr((name, shape, tables)).encode()).hexdigest()
    made = AuditLog(path)
    made.append([replace(RECORD, principal=name, shape=shape, tables=tuple(tables)), RECORD])
    made.close()
    data = path.read_bytes()
    assert data.count(b"\n") == 3 and data.isascii() and data.replace(b"\n", b"").decode().isprintable()
    _, entry, last = entries(path)
    assert (entry["principal"], entry["shape"], entry["tables"]) == (name, shape, tables)
    assert last["principal"] == "alice"
    assert verify(path).lines == 3


def test_long_texts_are_cut_and_known_by_their_hash(log: AuditLog) -> None:
    shape = "SELECT " + "x, " * 100_000
    log.append([replace(RECORD, shape=shape, columns=tuple(f"t.c{i}" for i in range(2000)))])
    entry = entries(log.path)[-1]
    assert entry["shape"] == shape[:4096] and entry["shape_sha256"] == hashlib.sha256(shape.encode()).hexdigest()
    assert (len(entry["columns"]), entry["columns_count"]) == (500, 2000)
    assert log.path.stat().st_size < 20_000


@pytest.mark.parametrize(
    "change",
    [{"epsilon": float("nan")}, {"delta": float("inf")}, {"decision": "maybe"}, {"door": "x"}, {"event": ""},
     {"principal": b"x"}, {"tables": ["a"]}, {"columns": (1,)}, {"rows": None}, {"rows": 1.5}],
    ids=str,
)  # fmt: skip
def test_a_record_that_is_none_is_refused_before_it_meets_others(change: dict[str, Any]) -> None:
    with pytest.raises(AuditError):
        replace(RECORD, **change)


# It is closed when in doubt


def test_a_full_disk_answers_nobody_and_leaves_no_part_of_a_line(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append([RECORD])
    before = log.path.read_bytes()
    real = os.write
    calls = []

    def full(descriptor: int, data: Any) -> int:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(descriptor, bytes(data)[:10])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(AuditError, match="No space left on device"):
        asyncio.run(log.write(RECORD))
    assert log.path.read_bytes() == before
    monkeypatch.undo()
    asyncio.run(log.write(RECORD))  # there is room again
    assert verify(log.path).lines == 3


def test_after_a_failed_fsync_nothing_is_answered_any_more(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(AuditError, match="Input/output error"):
        asyncio.run(log.write(RECORD))
    monkeypatch.undo()
    with pytest.raises(AuditError, match="the disk did not keep it"):
        asyncio.run(log.write(RECORD))


@pytest.mark.parametrize("what", ["removed", "moved", "longer", "shorter", "replaced"])
def test_a_log_that_others_touch_answers_nobody(log: AuditLog, what: str) -> None:
    log.append([RECORD])
    if what in ("removed", "moved", "replaced"):
        log.path.rename(log.path.with_name("elsewhere"))
        if what == "replaced":
            log.path.write_bytes(log.path.with_name("elsewhere").read_bytes())
    elif what == "longer":
        with open(log.path, "ab") as opened:
            opened.write(b"{}\n")
    else:
        os.truncate(log.path, 100)
    for _ in range(2):
        with pytest.raises(AuditError, match="changed or moved"):
            asyncio.run(log.write(RECORD))


def test_a_closed_log_answers_nobody(tmp_path: Path) -> None:
    made = AuditLog(tmp_path / "a")
    made.close()
    with pytest.raises(AuditError):
        asyncio.run(made.write(RECORD))
    with pytest.raises(AuditError):
        made.append([RECORD])


def test_one_log_has_one_writer(log: AuditLog) -> None:
    with pytest.raises(AuditError, match="another server writes the audit log"):
        AuditLog(log.path)


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o602, 0o666])
def test_a_log_that_others_may_change_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.touch()
    path.chmod(mode)
    with pytest.raises(AuditError, match="chmod 600"):
        AuditLog(path)


def test_what_is_no_file_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(AuditError):
        AuditLog(tmp_path)
    with pytest.raises(AuditError, match="No such file"):
        AuditLog(tmp_path / "nowhere" / "a")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(AuditError):
        AuditLog(tmp_path / "pipe")


# The chain


def filled(path: Path, count: int = 6, rotate: int = audit.ROTATE) -> AuditHead:
    made = AuditLog(path, rotate=rotate)
    for number in range(count):
        made.append([record(number)])
    head = made.head
    made.close()
    return head


def test_the_hashes_can_be_checked_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a"
    filled(path)
    before = "0" * 64
    for line in path.read_text().splitlines():
        body, _, own = line.rpartition(',"hash":"')
        assert hashlib.sha256((before + body).encode()).hexdigest() == own[:64]
        before = own[:64]


@settings(max_examples=examples(150))
@given(st.data())
def test_any_change_is_found(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a"
    head = verify(path) if path.exists() else filled(path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    kind = data.draw(st.sampled_from(["byte", "drop", "swap", "double", "cut"]))
    place = data.draw(st.integers(0, len(lines) - 2))
    if kind == "byte":
        at = data.draw(st.integers(0, len(whole) - 1))
        other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
        changed = whole[:at] + bytes([other]) + whole[at + 1 :]
    elif kind == "drop":
        changed = b"".join(lines[:place] + lines[place + 1 :])
    elif kind == "swap":
        changed = b"".join([*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]])
    elif kind == "double":
        changed = b"".join(lines[: place + 1] + lines[place:])
    else:
        changed = b"".join(lines[: place + 1])
    broken = tmp_path / "broken"
    broken.touch(0o600)
    broken.write_bytes(changed)
    with pytest.raises(AuditError):
        verify(broken, head)
    if kind not in ("cut",):
        with pytest.raises(AuditError):
            verify(broken)


def test_a_server_does_not_go_on_with_a_changed_log(tmp_path: Path) -> None:
    path = tmp_path / "a"
    filled(path)
    path.write_bytes(path.read_bytes().replace(b'"epsilon":0.5', b'"epsilon":0.1', 1))
    with pytest.raises(AuditError, match="is damaged at line 2"):
        AuditLog(path)
    with pytest.raises(AuditError, match="is damaged at line 2"):
        verify(path)


def test_a_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a"
    first = filled(path, 3)
    second = filled(path, 3)
    assert (first.lines, second.lines) == (4, 7)
    assert verify(path, first) == second
    with pytest.raises(AuditError, match="does not hold line 4 as it was"):
        verify(path, AuditHead(4, "0" * 64))


def test_a_long_log_is_put_aside_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    head = filled(path, 20, rotate=2000)
    parts = sorted(each.name for each in tmp_path.iterdir())
    assert parts[0] == "a.jsonl" and parts[1:] == [f"a.jsonl.{number:06d}" for number in range(1, len(parts))]
    assert len(parts) >= 4
    assert all((tmp_path / part).stat().st_mode & 0o777 == 0o600 for part in parts)
    assert all((tmp_path / part).stat().st_size < 4000 for part in parts)
    assert verify(path) == head
    sessions = [entry["session"] for entry in reversed(recent(path, None, 100))]
    assert sessions == [f"s{number}" for number in range(20)]
    filled(path, 1)
    assert verify(path, head).lines == head.lines + 1
    (tmp_path / parts[1]).rename(tmp_path / "archived")  # the oldest may be archived
    assert verify(path).lines == head.lines + 1
    (tmp_path / parts[2]).unlink()
    assert verify(path).lines == head.lines + 1
    (tmp_path / parts[-1]).rename(tmp_path / "x")
    if len(parts) > 4:
        with pytest.raises(AuditError, match="does not follow the part before it"):
            verify(path)


def test_a_crash_between_two_parts_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    first = filled(path)
    path.rename(tmp_path / "a.000001")  # and then it was killed
    second = filled(path, 2)
    assert second.lines == first.lines + 3
    assert verify(path, first) == second


# Crashes


def test_a_line_that_was_cut_off_is_kept_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    filled(path, 3)
    whole = path.read_bytes()
    for cut in (1, 50, 200):
        torn = whole[: len(whole) - cut]
        folder = tmp_path / str(cut)
        folder.mkdir()
        broken = folder / "a"
        broken.touch(0o600)
        broken.write_bytes(torn)
        with pytest.raises(AuditError, match="in the middle of a line"):
            verify(broken)
        made = AuditLog(broken)
        made.append([RECORD])
        made.close()
        (aside,) = (each for each in folder.iterdir() if each != broken)
        assert made.recovered == aside and aside.stat().st_mode & 0o777 == 0o600
        kept = aside.read_bytes()
        assert broken.read_bytes().startswith(torn.removesuffix(kept)) and len(kept) > 10
        told = entries(broken)[-2]
        assert (told["event"], told["kind"], told["decision"]) == ("server", "recovered", "failed")
        assert hashlib.sha256(kept).hexdigest() in told["shape"] and f"{len(kept)} bytes" in told["shape"]
        assert verify(broken).lines == 5


def test_a_first_line_that_was_cut_off_is_kept_too(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch(0o600)
    path.write_bytes(b'{"n":1,"time":"2026')
    made = AuditLog(path)
    made.close()
    assert made.recovered is not None and made.recovered.read_bytes() == b'{"n":1,"time":"2026'
    assert verify(path).lines == 2


KILLED = """
import asyncio, sys
from sqlanon.server.audit import AuditLog, Record
async def client(log, number):
    for turn in range(100000):
        await log.write(Record(f"{number}-{turn}", "alice", "pg", "answered", shape="SELECT ?" * 20))
        print(f"{number}-{turn}", flush=True)
async def run():
    log = AuditLog(sys.argv[1], rotate=20000)
    await asyncio.gather(*(client(log, number) for number in range(8)))
asyncio.run(run())
"""


@pytest.mark.full
def test_what_was_answered_before_a_kill_is_in_the_log(tmp_path: Path) -> None:
    for turn in range(3):
        path = tmp_path / f"a{turn}"
        with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
            timer = threading.Timer(0.8 + 0.13 * turn, process.kill)
            timer.start()
            assert process.stdout is not None
            answered = [line.strip() for line in process.stdout if line.endswith("\n")]
            timer.join()
        made = AuditLog(path)
        made.close()
        verify(path)
        written = set()
        for each in [*audit.parts(path), path]:
            written |= {entry.get("session") for entry in entries(each)}
        assert len(answered) > 20 and set(answered) <= written


# The latest


def test_the_latest_are_read_by_principal(tmp_path: Path) -> None:
    path = tmp_path / "a"
    made = AuditLog(path, rotate=30_000)
    names = ["alice", "bob", 'al"ice', "alice\n"]
    for number in range(400):
        made.append([replace(record(number), principal=names[number % 4])])
    made.close()
    for place, name in enumerate(names):
        found = recent(path, name, 10)
        assert [entry["session"] for entry in found] == [f"s{396 + place - 4 * turn}" for turn in range(10)]
        assert {entry["principal"] for entry in found} == {name}
        assert len(recent(path, name, 1000)) == 100
    assert len(recent(path, None, 1000)) == 400
    assert recent(path, "nobody", 5) == [] and recent(tmp_path / "none", None, 5) == []


def test_the_latest_can_be_read_while_a_line_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a"
    filled(path, 3)
    with open(path, "ab") as opened:
        opened.write(b'{"n":5,"principal":"ali')
    assert [entry["session"] for entry in recent(path, "alice", 9)] == ["s2", "s1", "s0"]
