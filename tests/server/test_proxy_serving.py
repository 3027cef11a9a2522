"""`sqlanon serve` as a process: it looks again at its policy, sends the idle away, and ends when it is told to."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from conftest import ROOT
from proxy_running import PASSWORD, POLICY, made, running
from raw_client import Closed, Raw, query

from sqlanon.cli import main

TOWNS = "SELECT count(*) FROM towns"


def until(condition: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)


@contextmanager
def serving(policy: Path, **more: Any) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process, and the port that it says."""
    log = policy.with_suffix(".log")
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlanon", "serve", str(policy)],
            stdin=subprocess.DEVNULL, stdout=written, stderr=written, env=os.environ | {"PYTHONPATH": str(ROOT)},
            **more,
        )  # fmt: skip
    try:
        until(lambda: b"psql -h" in log.read_bytes() or process.poll() is not None)
        said = re.search(r"listens on 127.0.0.1, port (\d+)", log.read_text())
        assert said is not None, log.read_text()
        yield process, int(said[1])
    finally:
        process.kill()
        process.wait(20)


def children(parent: int) -> set[str]:
    return set(Path(f"/proc/{parent}/task/{parent}/children").read_text().split())


@pytest.mark.full
def test_the_policy_is_watched_and_the_server_ends_when_told(tmp_path: Path) -> None:
    policy = made(tmp_path)
    with serving(policy) as (process, port):
        given = {"host": "127.0.0.1", "port": port, "dbname": "policy", "user": "ann", "password": PASSWORD}
        db = psycopg.connect(**given, autocommit=True)  # type: ignore[arg-type]

        def state() -> str:
            try:
                return f"{db.execute(TOWNS).fetchone()}"
            except psycopg.Error as error:
                return str(error.sqlstate)

        assert state() == "(2,)"
        policy.write_text(POLICY.replace("    towns: {public: true}\n", "").replace("[towns, visits]", "[visits]"))
        until(lambda: state() == "42P01")
        policy.write_text(POLICY.replace("rows: 4", "rows: fourteen"))
        until(lambda: state() == "57P03")
        until(lambda: "nothing is answered until it can" in policy.with_suffix(".log").read_text())
        assert "policy version 2 is in force" in policy.with_suffix(".log").read_text()
        policy.write_text(POLICY)
        process.send_signal(signal.SIGHUP)
        until(lambda: state() == "(2,)")
        workers = children(process.pid)
        assert len(workers) >= 3
        process.send_signal(signal.SIGTERM)
        until(lambda: db.closed or state() in ("57P01", "None"))
        assert process.wait(300) == 0
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
        log = policy.with_suffix(".log").read_text()
        assert "Traceback" not in log and PASSWORD not in log


@pytest.mark.full
def test_the_idle_are_sent_away_and_who_waits_for_an_answer_is_not_idle(tmp_path: Path) -> None:
    policy = POLICY.replace("answer_time: 0", "answer_time: 6") + "  timeouts: {idle: 4}\n"
    with running(tmp_path, policy) as found, Raw("127.0.0.1", found.server.port, timeout=300) as raw:
        raw.login("ann", PASSWORD, "policy")
        started = time.monotonic()
        assert raw.kinds(query("SELECT count(*) AS n FROM visits")) == "T D C" and time.monotonic() - started > 5.5
        assert raw.kinds(query("SELECT 1")) == "T D C"
        started = time.monotonic()
        assert raw.error()["C"] == "57P05" and time.monotonic() - started > 3.5
        with pytest.raises(Closed):
            raw.reply()


@pytest.mark.full
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "policy.ledger").unlink(), "policy.ledger"),
        (lambda folder: (folder / "policy.users").chmod(0o644), "policy.users"),
        (lambda folder: (folder / "policy.audit.jsonl").write_text('{"event": "nothing"}\n'), "policy.audit.jsonl"),
        (lambda folder: (folder / "shop.duckdb").unlink(), "shop.duckdb"),
        (lambda folder: (folder / "policy.yml").write_text(POLICY + "  tls: {certificate: a, key: b}\n"), "'tls'"),
    ],
    ids=["ledger", "users", "audit", "database", "certificate"],
)  # fmt: skip
def test_check_finds_what_is_wrong(tmp_path: Path, damage: Callable[[Path], object], said: str) -> None:
    policy = made(tmp_path)
    damage(tmp_path)
    done = CliRunner().invoke(main, ["serve", str(policy), "--check"])
    assert done.exit_code == 2 and said in done.stderr and "can be served" not in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("door", ["pg", "http"])
def test_a_port_that_is_taken_is_noticed_before_workers_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.setattr("sqlanon.server.serve.open_door", lambda path: pytest.fail("workers were started"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = POLICY.replace("port: 0", f"port: {port}" if door == "pg" else f"port: 0\n  http: {{port: {port}}}")
        done = CliRunner().invoke(main, ["serve", str(made(tmp_path, text))])
    assert done.exit_code == 2 and f"port {port} of 127.0.0.1 is already in use" in done.output


def test_a_host_that_is_not_of_this_machine(tmp_path: Path) -> None:
    text = POLICY.replace("port: 0", "port: 6543\n  host: 203.0.113.7\n  tls: {certificate: a, key: b}")
    done = CliRunner().invoke(main, ["serve", str(made(tmp_path, text))])
    assert done.exit_code == 2 and "the server cannot listen on 203.0.113.7" in done.output


@pytest.mark.full
def test_a_signal_while_workers_start_does_not_blame_the_policy(tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches the workers, too."""
    policy = made(tmp_path)
    with serving(policy, start_new_session=True) as (process, _):
        policy.write_text(POLICY.replace("rows: 4", "rows: 5"))
        before = children(process.pid)
        until(lambda: bool(children(process.pid) - before))  # workers of the new policy
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(300) == 0
    said = policy.with_suffix(".log").read_text()
    assert "the policy cannot be used" not in said and "Traceback" not in said
