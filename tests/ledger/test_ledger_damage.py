"""The ledger under kill -9, races, full disks, locks and damage: it is right, or it refuses."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import TESTS

from sqlanon.errors import BudgetExhausted, LedgerError
from sqlanon.ledger import Cost, Head, Ledger, Limits
from sqlanon.ledger.anchor import Anchor, head_file, read_anchor, write_anchor

HERE = TESTS
WIDE = Limits(epsilon=1e6, delta=1.0)
NOON = datetime(2026, 7, 15, 12, tzinfo=UTC)
Sums = dict[str, Any]


def program(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "ledger_processes.py"), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=400, env={**os.environ, "PYTHONPATH": str(HERE.parent)}
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fill(ledger: Ledger, events: int) -> None:
    ledger._connection.execute("PRAGMA synchronous = OFF")  # type: ignore[union-attr]
    for number in range(events):
        who, cost = ("ada", "bob")[number % 2], Cost(0.1, 1e-9)
        ledger.reserve(who, cost, WIDE, shape="s", fingerprint="f", policy="p", at=NOON)


def sums(path: Path) -> Sums:
    with Ledger.open(path) as ledger:
        return {who: ledger.left(who, Limits(1e6, 1.0, "month"), NOON) for who in ("ada", "bob")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger.create(tmp_path / "ledger.db"):
        return tmp_path / "ledger.db"


@pytest.fixture
def filled(path: Path) -> Path:
    with Ledger.open(path) as ledger:
        fill(ledger, 60)
        ledger.remember("k", "ada", "x" * 9000)
    return path


def test_of_64_processes_with_budget_for_one_exactly_one_succeeds(path: Path) -> None:
    assert program("race", path, 64) == {"won": 1, "refused": 63, "broken": 0}
    with Ledger.open(path) as ledger:
        assert [event.epsilon for event in ledger.history()] == [0.6]


def killed(path: Path, times: int) -> None:
    found = program("kill", path, times, times, "charge")
    assert found["free"] == 0 and found["charges"] >= found["answers"] > times
    # Some of the kills came between a charge and its answer, or the test would prove nothing.
    assert found["between"] > 0


@pytest.mark.full
def test_kill_9_never_gives_an_answer_for_free(path: Path) -> None:
    killed(path, 40)


@pytest.mark.long
def test_kill_9_never_gives_an_answer_for_free_long(path: Path) -> None:
    killed(path, 200)


def test_the_kill_test_finds_a_gateway_that_answers_first(path: Path) -> None:
    assert program("kill", path, 15, 1, "answer")["free"] > 0


def test_a_full_disk_answers_nothing(path: Path) -> None:
    found = program("full", path)
    assert "cannot be written" in found["error"] and "room" in found["hint"]
    assert found["events"] == found["charged"]


def test_a_fork_does_not_share_the_connection(path: Path) -> None:
    with Ledger.open(path) as ledger:
        fill(ledger, 2)
        parents = ledger._connection
        if (child := os.fork()) == 0:
            code = 1
            try:
                fill(ledger, 2)
                code = 2 if ledger._connection is parents else 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        fill(ledger, 2)
        assert ledger.verify().events == 6


def test_a_locked_ledger_waits_and_then_says_so(path: Path) -> None:
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    with Ledger.open(path, wait=0.1) as ledger:
        with pytest.raises(LedgerError, match=r"held by another process for 0\.1 seconds") as refused:
            fill(ledger, 1)
        assert refused.value.sqlstate == "58030" and "Try again" in (refused.value.hint or "")
        raw.execute("ROLLBACK")
        fill(ledger, 1)
        assert ledger.verify().events == 1
    raw.close()
    with Ledger.open(path) as ledger:
        assert ledger._connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)  # type: ignore[union-attr]
        assert ledger._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # type: ignore[union-attr]


def outcome(path: Path) -> Sums | None:
    """The sums, or None where the ledger refuses; anything else is an error of this test."""
    try:
        return sums(path)
    except LedgerError as refused:
        assert refused.sqlstate == "58030" and refused.hint
        return None


@pytest.mark.parametrize("flips", [1, 4, 64])
def test_flipped_bytes_refuse_or_do_not_matter(filled: Path, flips: int) -> None:
    right, whole = sums(filled), filled.read_bytes()
    refused = 0
    for seed in range(60):
        pick = random.Random(seed)
        damaged = bytearray(whole)
        for _ in range(flips):
            damaged[pick.randrange(len(whole))] ^= 1 << pick.randrange(8)
        filled.write_bytes(damaged)
        found = outcome(filled)
        assert found is None or found == right, seed
        refused += found is None
    assert refused >= {1: 15, 4: 40, 64: 60}[flips]  # most of a page is empty


@pytest.mark.parametrize("events", [60, 500])
def test_a_changed_amount_is_found_wherever_it_is(path: Path, events: int) -> None:
    with Ledger.open(path) as ledger:
        fill(ledger, events)
    whole, amount = path.read_bytes(), b"0.100000000000"
    assert whole.count(amount) == events
    places = [at for at in range(len(whole)) if whole.startswith(amount, at)]
    for place in random.Random(1).sample(places, 12):
        path.write_bytes(whole[: place + 2] + b"0" + whole[place + 3 :])  # 0.1 becomes 0.0
        with pytest.raises(LedgerError, match=r"event \d+ was changed or is missing"):
            sums(path)
    path.write_bytes(whole)
    assert sums(path)["ada"].spent.epsilon == pytest.approx(events / 20)


def test_a_truncated_file_refuses(filled: Path) -> None:
    right, whole = sums(filled), filled.read_bytes()
    filled.write_bytes(b"")
    with pytest.raises(LedgerError, match="is empty"):
        Ledger.open(filled)
    for size in (1, 15, 16, 100, 1024, 4096, 8192, len(whole) // 2, len(whole) - 4096):
        filled.write_bytes(whole[:size])
        with pytest.raises(LedgerError):
            Ledger.open(filled)
    for size in range(len(whole) - 4095, len(whole), 64):  # the last page may hold an answer, or nothing at its end
        filled.write_bytes(whole[:size])
        assert outcome(filled) in (None, right)


def unguarded(path: Path, *statements: str) -> None:
    """Run statements with the triggers away, and put the triggers back."""
    with sqlite3.connect(path) as raw:
        triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(statement)
        for _, text in triggers:
            raw.execute(text)
    raw.close()


DAMAGE = {
    "all": ["DELETE FROM events"],
    "all and the head": ["DELETE FROM events", "DELETE FROM head"],
    "all and the count": ["DELETE FROM events", "UPDATE head SET events = 0"],
    "first": ["DELETE FROM events WHERE id = 1"],
    "middle": ["DELETE FROM events WHERE id = 30"],
    "last": ["DELETE FROM events WHERE id = 60"],
    "last and the count": ["DELETE FROM events WHERE id = 60", "UPDATE head SET events = 59"],
    "middle, and the rest moves up": [
        "DELETE FROM events WHERE id = 30",
        "UPDATE events SET id = id - 1 WHERE id > 30",
        "UPDATE head SET events = 59",
    ],
    "changed": ["UPDATE events SET epsilon = '0.01' WHERE id = 10"],
    "another's": ["UPDATE events SET principal = 'eve' WHERE id = 60"],
    "another time": ["UPDATE events SET at = '2020' || substr(at, 5)"],
    "another kind": ["UPDATE events SET kind = 'failed' WHERE id = 1"],
    "not text": ["UPDATE events SET principal = x'ff' WHERE id = 5"],
    "added": ["INSERT INTO events SELECT 61, at, 'grant', principal, epsilon, delta, rho, shape, fingerprint, policy, "
              "'me', 'free', settles, hash FROM events WHERE id = 60", "UPDATE head SET events = 61"],
    "another name": ["UPDATE head SET ledger = 'other'"],
    "two heads": ["CREATE TABLE more AS SELECT * FROM head"],
    "no answers": ["DROP TABLE answers"],
    "version": ["PRAGMA user_version = 3"],
    "no version": ["PRAGMA user_version = 0"],
    "application": ["PRAGMA application_id = 7"],
}  # fmt: skip


@pytest.mark.parametrize("statements", DAMAGE.values(), ids=DAMAGE)
def test_rows_changed_behind_the_back_refuse(filled: Path, statements: list[str]) -> None:
    unguarded(filled)
    assert sums(filled)["ada"].spent.epsilon == 3.0
    unguarded(filled, *statements)
    with pytest.raises(LedgerError):
        Ledger.open(filled)


def test_a_missing_trigger_refuses(filled: Path) -> None:
    with sqlite3.connect(filled) as raw:
        raw.execute("DROP TRIGGER events_kept")
    raw.close()
    with pytest.raises(LedgerError, match="triggers were changed"):
        Ledger.open(filled)


def test_what_is_no_ledger_refuses(tmp_path: Path, path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(LedgerError, match="not a file"):
        Ledger.open(tmp_path)
    (tmp_path / "text.db").write_text("a text " * 1000)
    with pytest.raises(LedgerError, match="not a database"):
        Ledger.open(tmp_path / "text.db")
    raw = sqlite3.connect(tmp_path / "other.db")
    raw.execute("CREATE TABLE events (id)")
    raw.close()
    with pytest.raises(LedgerError, match="not a ledger of sqlanon"):
        Ledger.open(tmp_path / "other.db")
    path.chmod(0o400)
    with pytest.raises(LedgerError, match="read-only"):
        Ledger.open(path)


def test_a_file_that_is_removed_or_replaced_under_way_refuses(filled: Path) -> None:
    older = filled.with_name("older.db")
    shutil.copy(filled, older)
    with Ledger.open(filled) as ledger:
        filled.unlink()
        for call in (lambda: fill(ledger, 1), lambda: ledger.left("ada", WIDE), lambda: ledger.cached("k")):
            with pytest.raises(LedgerError, match="removed or replaced"):
                call()
        os.replace(older, filled)
        with pytest.raises(LedgerError, match="removed or replaced"):
            fill(ledger, 1)


def put_back(path: Path) -> None:
    """The two last events are gone, and all is in order otherwise: what an older copy looks like."""
    unguarded(
        path,
        "DELETE FROM events WHERE id > 58",
        "UPDATE head SET events = 58, hash = (SELECT hash FROM events WHERE id = 58)",
    )


def test_an_older_copy_is_found_with_a_head_or_by_who_saw_more(filled: Path) -> None:
    with Ledger.open(filled) as ledger:
        head = ledger.verify()
        put_back(filled)
        with pytest.raises(LedgerError, match="is an older copy: it had 60 events"):
            fill(ledger, 1)
    with pytest.raises(LedgerError, match=r"is an older copy: by .*ledger.db.head it had 60 events"):
        Ledger.open(filled)
    write_anchor(filled, Anchor(head_of(filled).ledger, Head(0, "")), anew=True)
    with Ledger.open(filled) as ledger:  # from the file alone it cannot be told
        assert ledger.verify().events == 58
        with pytest.raises(LedgerError, match="is an older copy"):
            ledger.verify(head)
        for _ in range(5):  # and it is found also when it has come further than it was
            ledger.reserve("ada", Cost(0.1), WIDE, shape="s", fingerprint="f", policy="p")
        with pytest.raises(LedgerError, match="is an older copy"):
            ledger.verify(head)


def head_of(path: Path) -> Anchor:
    found = read_anchor(path)
    assert found is not None
    return found


def test_an_older_copy_of_the_whole_file_is_found_when_it_is_opened(filled: Path) -> None:
    older = filled.read_bytes()
    with Ledger.open(filled) as ledger:
        fill(ledger, 3)
        head = ledger.verify()
    assert head_of(filled).head == head == Head(63, head.hash)
    newer = filled.read_bytes()
    filled.write_bytes(older)
    for _ in range(2):
        with pytest.raises(LedgerError, match="had 63 events, which it does not have now") as caught:
            Ledger.open(filled)
        assert "sqlanon budget anchor" in str(caught.value.hint)
    filled.write_bytes(newer)
    assert sums(filled)["ada"].spent.epsilon == pytest.approx(3.2)
    # The older copy is all there is: someone says so, with a name and a reason, and it counts from there.
    filled.write_bytes(older)
    found = Ledger.anchor(filled, by="ann", reason="the disk broke")
    assert found.events == 61 and head_of(filled).head == found
    with Ledger.open(filled) as ledger:
        (last,) = ledger.history(limit=1)
        assert (last.kind, last.principal, last.by, last.epsilon) == ("grant", "*", "ann", 0.0)
        assert last.reason == f"anchored anew: the disk broke (the head was 63:{head.hash})"
        assert ledger.left("ada", Limits(1e6, 1.0, "month"), NOON).spent.epsilon == pytest.approx(3.0)


def test_another_ledger_in_its_place_is_found(filled: Path) -> None:
    with Ledger.create(filled.with_name("other.db")) as other:
        fill(other, 100)
    shutil.copy(filled.with_name("other.db"), filled)
    with pytest.raises(LedgerError, match="does not belong to"):
        Ledger.open(filled)


def test_a_ledger_without_its_head_is_refused_and_so_is_a_new_one_in_its_place(filled: Path) -> None:
    kept = head_file(filled).read_bytes()
    head_file(filled).unlink()
    with pytest.raises(LedgerError, match="is gone"):
        Ledger.open(filled)
    head_file(filled).write_bytes(b"")
    with pytest.raises(LedgerError, match="is damaged"):
        Ledger.open(filled)
    head_file(filled).write_bytes(kept)
    filled.unlink()
    with pytest.raises(LedgerError, match="a ledger with 60 events was here before"):
        Ledger.create(filled)
    assert not filled.exists()


def test_a_torn_write_of_the_head_leaves_the_one_before(filled: Path) -> None:
    kept = bytearray(head_file(filled).read_bytes())
    newest = kept.index(b"\n60\n") // 512
    kept[newest * 512 + 60 : newest * 512 + 90] = b"x" * 30
    head_file(filled).write_bytes(kept)
    assert head_of(filled).head.events == 59
    with Ledger.open(filled) as ledger:
        fill(ledger, 2)
    assert head_of(filled).head.events == 62


def test_a_process_that_ends_between_the_ledger_and_its_head_stops_nobody(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise LedgerError("no room")

    with Ledger.open(filled) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr("sqlanon.ledger.write_anchor", full)
            with pytest.raises(LedgerError, match="no room"):  # charged, and not answered
                fill(ledger, 1)
        assert head_of(filled).head.events == 60
    with Ledger.open(filled) as ledger:
        assert ledger.verify().events == 61
        fill(ledger, 1)
    assert head_of(filled).head.events == 62


def test_a_late_process_does_not_take_the_head_back(filled: Path) -> None:
    now = head_of(filled)
    for events in (0, 59, 60):
        write_anchor(filled, Anchor(now.ledger, Head(events, "0" * 64)))
        assert head_of(filled) == now


def test_a_ledger_of_before_heads_were_kept_gets_one_when_it_is_opened(filled: Path) -> None:
    head_file(filled).unlink()
    with sqlite3.connect(filled) as raw:
        raw.execute("PRAGMA user_version = 1")
    raw.close()
    earlier = filled.read_bytes()
    with Ledger.open(filled) as ledger:
        assert head_of(filled).head == ledger.verify() and ledger._version() == 2
        fill(ledger, 1)
    filled.write_bytes(earlier)  # also a copy of before finds its master
    with pytest.raises(LedgerError, match="had 61 events"):
        Ledger.open(filled)


def test_without_its_wal_a_settled_charge_is_still_there(path: Path) -> None:
    """As a copy of the one file looks, or a tidy person who removes the other two."""
    with Ledger.open(path) as ledger:
        fill(ledger, 3)
        ledger.settle(3, "answered")
        shutil.copy(path, path.with_name("copy.db"))
        shutil.copy(head_file(path), path.with_name("copy.db.head"))
    with Ledger.open(path.with_name("copy.db")) as ledger:
        assert ledger.verify().events == 4
    (path.with_name("new.db-wal")).write_bytes(b"left over")
    with pytest.raises(LedgerError, match="before"):
        Ledger.create(path.with_name("new.db"))


def test_after_an_error_nothing_is_left_half_done(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(0.3, 1e-6)
    with Ledger.open(path) as ledger:
        append: Callable[..., int] = ledger._append

        def interrupted(*arguments: Any, **more: Any) -> int:
            append(*arguments, **more)
            raise KeyboardInterrupt

        def reserve() -> None:
            ledger.reserve("ada", Cost(0.15), limits, shape="s", fingerprint="f", policy="p")

        for _ in range(2):
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(ledger, "_append", interrupted)
                reserve()
            reserve()
        with pytest.raises(BudgetExhausted):
            reserve()
        assert ledger.verify().events == 2
