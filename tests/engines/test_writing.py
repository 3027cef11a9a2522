"""A DuckDB file that others read is replaced by a copy; what one who was killed left in its log is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from sqlanon.engines import open_writable as module
from sqlanon.engines.open_writable import open_writable

HOLDER = "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=True); print(flush=True); sys.stdin.read()"
KILLED = """
import duckdb, os, sys
connection = duckdb.connect(sys.argv[1])
connection.execute("INSERT INTO t VALUES (2)")
os.kill(os.getpid(), 9)
"""
# Dies in the middle of the swap: before the new file is there, or before the log of the old one is gone.
DIES = """
import os, sys
from sqlanon.engines.open_writable import open_writable
replace = os.replace
def dies(*names):
    if sys.argv[2] == "after":
        replace(*names)
    os.kill(os.getpid(), 9)
os.replace = dies
with open_writable(sys.argv[1]) as engine:
    engine._connection.execute("INSERT INTO t VALUES (3)")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a 1 in it, and a log beside it that has a 2."""
    made = tmp_path / "w.duckdb"
    with duckdb.connect(str(made)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")
    assert subprocess.run([sys.executable, "-c", KILLED, str(made)]).returncode == -9
    assert module._log(made).exists()
    return made


def held(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "\n"
    return child


def numbers(path: Path) -> list[int]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM t ORDER BY n").fetchall()]


def test_what_is_in_the_log_is_kept(path: Path) -> None:
    with held(path) as reader:
        first = path.stat().st_ino
        with open_writable(str(path)) as engine:
            engine._connection.execute("INSERT INTO t VALUES (3)")  # type: ignore[attr-defined]
        assert path.stat().st_ino != first
        reader.communicate("")
    assert numbers(path) == [1, 2, 3]
    assert sorted(os.listdir(path.parent)) == [".w.duckdb.lock", "w.duckdb"]


@pytest.mark.full
@pytest.mark.parametrize(("when", "kept"), [("before", [1, 2, 4]), ("after", [1, 2, 3, 4])])
def test_the_log_goes_with_the_file_that_was_replaced(path: Path, when: str, kept: list[int]) -> None:
    with held(path) as reader:
        assert subprocess.run([sys.executable, "-c", DIES, str(path), when]).returncode == -9
        reader.communicate("")
    assert module._note(path).exists() and module._log(path).exists()
    if when == "after":  # nobody reads a mixture
        with pytest.raises(duckdb.Error):
            numbers(path)
    with open_writable(str(path)) as engine:
        engine._connection.execute("INSERT INTO t VALUES (4)")  # type: ignore[attr-defined]
    assert numbers(path) == kept
    assert not module._note(path).exists() and not module._log(path).exists()
