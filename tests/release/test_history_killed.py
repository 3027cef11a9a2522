"""A refresh that is killed at any moment leaves the old release or the new one, and its history and the record of runs
agree with it."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import duckdb
import pytest

from sqlanon.engines import connect
from sqlanon.engines.manifest import current_file
from sqlanon.policy import load
from sqlanon.release.history.history_tables import HistoryTables
from sqlanon.release.versions import evidence_shown, versions
from sqlanon.schedule import Job, refresh

POLICY = """
source: {database: warehouse.duckdb, table: people}
columns: {id: identifier, town: quasi_identifier, illness: sensitive, n: insensitive}
hierarchies:
  town: {tree: {tree: {"*": [A, B]}}}
models: [{k_anonymity: {k: 2}}]
"""
VIEW = "person: id\nrelease: {view: released, keep: 1}\nhistory: {hold_back: 1}\n"
SEALED = "person: id\nrelease: {view: released, keep: 1}\nhistory: {hold_back: 1, encrypt: true}\n"
FOLDER = "release: {path: out/, keep: 1}\n"
KEY = "a key that is long enough"
# Refreshes again and again; each release says in its column n which one it is. Children are made by a fork of a process
# that has imported all it needs, and has opened nothing: to start Python 200 times would take longer than all else.
CHILD = """
import os
import sys
from pathlib import Path
import sqlanon.release.history
from sqlanon.engines import duckdb
from sqlanon.engines.open_writable import open_writable
from sqlanon.schedule import Job, refresh

job = Job(Path(sys.argv[1]))
while sys.stdin.readline():
    child = os.fork()
    if not child:
        print("ready", flush=True)
        while True:
            with open_writable(str(job.path.parent / "warehouse.duckdb")) as engine:
                engine._connection.execute("UPDATE people SET n = n + 1")
            done = refresh(job, secret=sys.argv[2])
            assert done.published is not None, done
            print("done", flush=True)
    sys.stdin.readline()
    os.kill(child, 9)  # whoever made a process kills it: until it is waited for, its number is nobody else's
    print("dead" if os.waitpid(child, 0)[1] == 9 else "died by itself", flush=True)
"""
READER = "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=True); print(flush=True); sys.stdin.read()"


@contextmanager
def reader(folder: Path) -> Iterator[None]:
    """Somebody who has the file open as a server does, so that a copy of it is written."""
    command = [sys.executable, "-c", READER, str(folder / "warehouse.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield
        child.communicate("")


Mother = subprocess.Popen[str]


@contextmanager
def mother(folder: Path) -> Iterator[Mother]:
    command = [sys.executable, "-c", CHILD, str(folder / "policy.yml"), KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        yield made
        assert made.stdin is not None
        made.stdin.close()


def killed(folder: Path, made: Mother, after: float | None) -> int:
    """How many refreshes a process ended before it was killed, so many seconds after it began the first; without a
    time it is killed once it has ended one."""
    with Job(folder / "policy.yml").runs._open() as connection:  # who died says nothing more: that is not waited for
        connection.execute("UPDATE runs SET alive = '2000-01-01' WHERE outcome = 'running'")
    assert made.stdin is not None and made.stdout is not None
    made.stdin.write("go\n")
    made.stdin.flush()
    assert made.stdout.readline() == "ready\n"
    lines = []
    if after is None:
        lines.append(made.stdout.readline())
    else:
        time.sleep(after)
    made.stdin.write("kill\n")
    made.stdin.flush()
    while "dead\n" not in lines:
        lines.append(made.stdout.readline())
        assert lines[-1] in ("done\n", "dead\n"), lines[-1]
    return lines.count("done\n")


def state(folder: Path) -> int:
    """The number of the release that is shown; everything that is kept must be about it."""
    policy = load(folder / "policy.yml").located()
    assert policy.release is not None
    log = folder / "warehouse.duckdb.wal"  # of one that was killed: it is read first
    engine = connect(str(folder / "warehouse.duckdb"), read_only=not log.exists())
    try:
        connection = engine._connection  # type: ignore[attr-defined]
        source = "released" if policy.release.view else f"read_parquet('{current_file(folder / 'out')}')"
        shown = connection.execute(f"SELECT COUNT(*), MIN(n), MAX(n) FROM {source}").fetchall()[0]
        listed = versions(policy, engine)
        assert [item.version for item in listed if item.status == "current"] == [listed[0].version]
        kept = [item.shown.behind for item in listed if item.shown.behind]
        assert len(kept) == min(2, len(listed))
        if policy.release.view:
            names = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
            past = HistoryTables(engine, "released")
            assert past.version == listed[0].version
            whole = f"SELECT SUM(records) FROM {past.table('past_classes')} WHERE version = {past.version}"
            assert connection.execute(whole).fetchall() == [(shown[0],)]
            assert {name for name in names if name.startswith("released__")} == set(kept)
            assert not any(name.endswith("_next") for name in names)
        else:
            assert all((folder / "out" / name).exists() for name in kept)
        document = evidence_shown(policy, engine)
        assert document is not None
        agree(folder, len(listed), document["run"])
        assert shown[1] == shown[2]
        return int(shown[1])
    finally:
        engine.close()


def agree(folder: Path, count: int, shown: int) -> None:
    """Every version has its run. All but the last runs that published have said so; that one may have been killed
    between the release and the record, which the next refresh sets right once it has opened the database."""
    listed = Job(folder / "policy.yml").runs.listed(limit=100_000)
    done = [run.id for run in listed if run.outcome == "done"]
    assert len(done) in (count, count - 1)
    if len(done) == count:
        assert shown == max(done)
    else:
        assert shown > max(done, default=0)
        assert {run.id: run.outcome for run in listed}[shown] in ("running", "lost")


def lives(folder: Path, kills: int, asked: str, *, read: bool = False) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, town TEXT, illness TEXT, n INTEGER)")
        row = "i, ['A', 'B'][i % 2 + 1], ['flu', 'cold'][i // 2 % 2 + 1], 0"
        connection.execute(f"INSERT INTO people SELECT {row} FROM range(2000) AS r(i)")
    (folder / "policy.yml").write_text(POLICY + asked)
    assert refresh(Job(folder / "policy.yml"), secret=KEY).published is not None
    rng = random.Random(kills)
    last = state(folder)
    with mother(folder) as made:
        began = time.monotonic()
        ended = killed(folder, made, None)
        pace = time.monotonic() - began  # of one refresh, on this machine
        for _ in range(kills):
            with reader(folder) if read else nullcontext():
                ended += killed(folder, made, rng.uniform(0, 1.5 * pace))
            shown = state(folder)
            assert shown >= last
            last = shown
    assert last >= ended >= 1  # what was told to be done was done


@pytest.mark.full
@pytest.mark.parametrize("asked", [VIEW, FOLDER], ids=["view", "folder"])
def test_killed_at_some_points(tmp_path: Path, asked: str) -> None:
    lives(tmp_path, 2, asked)


@pytest.mark.long
def test_killed_while_a_copy_is_written(tmp_path: Path) -> None:
    lives(tmp_path, 200, VIEW, read=True)


@pytest.mark.long
@pytest.mark.parametrize("asked", [VIEW, SEALED, FOLDER], ids=["view", "encrypted", "folder"])
def test_killed_at_200_points(tmp_path: Path, asked: str) -> None:
    lives(tmp_path, 200, asked)
