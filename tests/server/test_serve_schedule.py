"""Server and scheduler in one process: clients see the new version of a release, and never a half of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import psycopg
import pytest
from click.testing import CliRunner
from conftest import Database

from sqlanon.cli import main
from sqlanon.ledger import Ledger
from sqlanon.server import users

KEY = "a key that is long enough"
PASSWORD = "correct horse battery"
GATEWAY = """
gateway:
  database: "DATABASE"
  unit: {table: people, key: id}
  tables:
    people: {}
    released: {released: true}
  rows: 1
  budget:
    statement: {epsilon: 1, delta: 1e-6, default: 0.5}
    principal: {epsilon: 100, delta: 1e-3}
  principals: {ann: {}}
serve: {port: 0, workers: 1}
"""
WEEKLY = """
source: {database: "DATABASE", table: people}
person: id
columns: {id: identifier, town: quasi_identifier, illness: sensitive, n: insensitive}
hierarchies:
  town: {tree: {tree: {"*": [A, B]}}}
models: [{k_anonymity: {k: 2}}]
release: {view: released}
history: {hold_back: 1}
schedule: {cron: "0 0 * * *"}
"""
ROWS = "i, ['A', 'B'][i % 2 + 1], ['flu', 'cold'][i // 2 % 2 + 1]"


MARGINALS = """
marginals: {table: people, of: {released: [town]}, epsilon: 50}
schedule: {cron: "0 0 * * *"}
"""


@contextmanager
def served(folder: Path, *others: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    Ledger.create(folder / "serve.ledger").close()
    users.set_password(folder / "serve.users", "ann", PASSWORD, new=True)
    environment = {**os.environ, "SQLANON_KEY": KEY}
    command = [sys.executable, "-m", "sqlanon", "serve", "serve.yml", *others, "--schedule"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        yield int(line.split("port ")[1].split(";")[0]), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def prepare(folder: Path, url: str) -> None:
    """The first version is out, and another was due a long time ago."""
    (folder / "serve.yml").write_text(GATEWAY.replace("DATABASE", url))
    (folder / "weekly.yml").write_text(WEEKLY.replace("DATABASE", url))
    environment = {"SQLANON_KEY": KEY}
    done = CliRunner().invoke(main, ["publish", "--no-workload", str(folder / "weekly.yml")], env=environment)
    assert done.exit_code == 0, done.output
    os.utime(folder / "weekly.yml", (1e9, 1e9))


def watched(port: int) -> set[tuple[int, int, int]]:
    """All that a client sees until the second version is there: rows, and which version they say they are of."""
    link = f"host=127.0.0.1 port={port} user=ann password='{PASSWORD}' dbname=serve"
    seen = set()
    deadline = time.monotonic() + 120
    with psycopg.connect(link, autocommit=True) as connection:
        while time.monotonic() < deadline:
            found = connection.execute("SELECT count(*), min(n), max(n) FROM released").fetchall()[0]
            seen.add(tuple(map(int, found)))
            if found[0] == 16:
                break
            time.sleep(0.1)
    return seen


def ended(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return told


@pytest.mark.full
def test_on_a_duckdb_file(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, town TEXT, illness TEXT, n INTEGER)")
        connection.execute(f"INSERT INTO people SELECT {ROWS}, 1 FROM range(8) r(i)")
    prepare(tmp_path, "w.duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"INSERT INTO people SELECT {ROWS}, 2 FROM range(8, 16) r(i)")
        connection.execute("UPDATE people SET n = 2")
    with served(tmp_path, "weekly.yml") as (port, process):
        assert watched(port) <= {(8, 1, 1), (16, 2, 2)}
        assert "refreshed, version 2" in ended(process)


@pytest.mark.full
def test_on_postgres(postgres: Database, tmp_path: Path) -> None:
    postgres.run("CREATE TABLE people (id INT, town TEXT, illness TEXT, n INT)")
    row = "i, (ARRAY['A', 'B'])[i % 2 + 1], (ARRAY['flu', 'cold'])[i / 2 % 2 + 1]"
    postgres.run(f"INSERT INTO people SELECT {row}, 1 FROM generate_series(0, 7) AS r(i)")
    prepare(tmp_path, postgres.url)
    postgres.run(f"INSERT INTO people SELECT {row}, 2 FROM generate_series(8, 15) AS r(i)")
    postgres.run("UPDATE people SET n = 2")
    with served(tmp_path, "weekly.yml") as (port, process):
        assert watched(port) <= {(8, 1, 1), (16, 2, 2)}
        assert "refreshed, version 2" in ended(process)


@pytest.mark.full
def test_marginals_of_the_policy_that_is_served(tmp_path: Path) -> None:
    """The counts that clients read plainly are replaced, in the file that the workers have open. The record of runs is
    lost before: that the first run of the next one has the number of the last one is no reason to pass it over."""
    policy = GATEWAY.replace("DATABASE", "w.duckdb").replace("people: {}", "people: {columns: {town: {keys: [A, B]}}}")
    policy = policy.replace("statement: {epsilon: 1,", "statement: {epsilon: 50,")
    (tmp_path / "serve.yml").write_text(policy + MARGINALS)
    with duckdb.connect(str(tmp_path / "w.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id, 'A' AS town FROM range(100) r(i)")
    with closing(Ledger.create(tmp_path / "serve.ledger")):
        assert CliRunner().invoke(main, ["refresh", str(tmp_path / "serve.yml")]).exit_code == 0
    (tmp_path / "serve.ledger").unlink()
    (tmp_path / "serve.ledger.head").unlink()
    with duckdb.connect(str(tmp_path / "w.duckdb")) as connection:
        connection.execute("UPDATE people SET town = 'B'")
    (tmp_path / "serve.runs").unlink()
    os.utime(tmp_path / "serve.yml", (1e9, 1e9))
    seen, deadline = [], time.monotonic() + 120
    with served(tmp_path) as (port, process):
        link = f"host=127.0.0.1 port={port} user=ann password='{PASSWORD}' dbname=serve"
        with psycopg.connect(link, autocommit=True) as connection:
            while time.monotonic() < deadline and (not seen or seen[-1][1] < 50):
                seen.append([int(n) for (n,) in connection.execute("SELECT records FROM released ORDER BY town")])
        assert "refreshed, counts of" in ended(process)
    assert all(abs(max(counts) - 100) < 10 and min(counts) < 10 for counts in seen) and seen[-1][1] > 90


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["serve.yml", "--schedule"], "has no schedule"),
        (["serve.yml", "weekly.yml"], "one policy is served at a time"),
        (["serve.yml", "serve.yml", "--schedule"], "source"),
    ],
)
def test_wrong_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "serve.yml").write_text(GATEWAY)
    (tmp_path / "weekly.yml").write_text(WEEKLY)
    done = CliRunner().invoke(main, ["serve", *args])
    assert done.exit_code == 2 and said in done.output
