"""A refresh that is killed at any point leaves the old release or the new one, and a history that agrees with it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from sqlanon.engines import connect
from sqlanon.policy import load
from sqlanon.release import publish
from sqlanon.release.history.kept import Kept
from sqlanon.release.record import versions

POLICY = """
source: {database: warehouse.duckdb, table: people}
person: id
columns: {id: identifier, town: quasi_identifier, illness: sensitive, n: insensitive}
hierarchies:
  town: {tree: {tree: {"*": [A, B]}}}
models: [{k_anonymity: {k: 2}}]
release: {view: released}
history: {hold_back: 1}
"""
KEY = "a key that is long enough"
# Refreshes again and again; each release says in its column n which one it is.
CHILD = """
import sys
import sqlanon.release
from sqlanon.engines import connect
from sqlanon.policy import load

policy = load(sys.argv[1]).located()
engine = connect(policy.locate(policy.source.database), read_only=False)
print("ready", flush=True)
while True:
    engine._connection.execute("UPDATE people SET n = n + 1")
    sqlanon.release.publish(policy, engine, secret=sys.argv[2], workload=False)
    print("done", flush=True)
"""


def killed(folder: Path, after: float) -> int:
    """How many refreshes a process ended before it was killed, so many seconds after it began the first."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder / "policy.yml"), KEY], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(after)
    child.send_signal(signal.SIGKILL)
    ended = child.stdout.read().count("done")
    child.wait()
    child.stdout.close()
    return ended


def state(folder: Path) -> int:
    """The number of the release that is shown; everything that is kept must be about it."""
    engine = connect(str(folder / "warehouse.duckdb"), read_only=False)
    try:
        connection = engine._connection  # type: ignore[attr-defined]
        listed = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        names = {name for (name,) in listed}
        shown = connection.execute("SELECT COUNT(*), MIN(n), MAX(n) FROM released").fetchall()[0]
        kept = Kept(engine, "released")
        assert kept.version == max(item.version for item in versions(engine, "released"))
        assert [item.version for item in versions(engine, "released") if item.status == "current"] == [kept.version]
        whole = f"SELECT SUM(records) FROM {kept.table('past_classes')} WHERE version = {kept.version}"
        assert connection.execute(whole).fetchall() == [(shown[0],)]
        assert len([name for name in names if name.startswith("released__")]) == 1, names
        assert not any(name.endswith("_next") for name in names)
        assert shown[1] == shown[2]
        return int(shown[1])
    finally:
        engine.close()


def lives(folder: Path, kills: int) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, town TEXT, illness TEXT, n INTEGER)")
        row = "i, ['A', 'B'][i % 2 + 1], ['flu', 'cold'][i // 2 % 2 + 1], 0"
        connection.execute(f"INSERT INTO people SELECT {row} FROM range(2000) AS r(i)")
    (folder / "policy.yml").write_text(POLICY)
    policy = load(folder / "policy.yml").located()
    engine = connect(str(folder / "warehouse.duckdb"), read_only=False)
    publish(policy, engine, secret=KEY, workload=False)
    engine.close()
    rng = random.Random(kills)
    last, ended = state(folder), 0
    for _ in range(kills):
        ended += killed(folder, rng.uniform(0, 1.5))
        shown = state(folder)
        assert shown >= last
        last = shown
    assert last >= ended  # what was told to be done was done


def test_killed_at_some_points(tmp_path: Path) -> None:
    lives(tmp_path, 6)


@pytest.mark.long
def test_killed_at_200_points(tmp_path: Path) -> None:
    lives(tmp_path, 200)
