"""The proxy beside a real PostgreSQL: latency, throughput and long answers, as ratios taken in one run.

`python tests/bench/proxy.py [SECONDS]` starts both servers, asks both in turns, and exits with 1 if a limit is broken.
Both have the same tables and the same clients; PostgreSQL answers about persons exactly, the proxy from its cache.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from proxy_servers import SERVE, Missing, Server, running_postgres, running_proxy
from proxy_world import STREAMED

LATENCY, STREAM = 15.0, 3.0  # times that of PostgreSQL
CLIENTS = 8
WARDS = "SELECT ward, count(*) AS n, avg(cost) AS cost FROM visits GROUP BY ward ORDER BY ward"
STATEMENTS = {"SELECT 1": "SELECT 1", "cached answer": WARDS}
ROWS = "SELECT id, name, amount, day FROM rows_released"


# ---- one client


def latencies(servers: list[Server], sql: str, seconds: float) -> list[float]:
    """The median of each server in milliseconds, asked in turns: a busy moment meets both alike."""
    connections = [server.connect(prepare_threshold=None) for server in servers]
    found: list[list[float]] = [[] for _ in servers]
    for db in connections:
        db.execute(sql).fetchall()
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        for db, times in zip(connections, found, strict=True):
            for _ in range(20):
                started = time.perf_counter()
                db.execute(sql).fetchall()
                times.append(time.perf_counter() - started)
    for db in connections:
        db.close()
    return [1000 * statistics.median(times) for times in found]


# ---- several clients


def asked(url: str, sql: str, seconds: float) -> int:
    """How many statements one client gets answered; it runs in a process of its own."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as db:
        done, deadline = 0, time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            db.execute(sql).fetchall()
            done += 1
    return done


def throughput(servers: list[Server], sql: str, seconds: float) -> list[float]:
    """Statements a second of all clients together."""
    with get_context("spawn").Pool(CLIENTS) as clients:
        clients.starmap(asked, [(server.url(), "SELECT 1", 0.05) for server in servers] * CLIENTS)
        return [sum(clients.starmap(asked, [(server.url(), sql, seconds)] * CLIENTS)) / seconds for server in servers]


# ---- long answers


def by_libpq(db: psycopg.Connection[Any], form: int) -> int:
    """The rows as libpq has them: what Python makes of them would cost the same on both sides."""
    return db.pgconn.exec_params(ROWS.encode(), None, result_format=form).ntuples


def by_copy(db: psycopg.Connection[Any]) -> int:
    with db.cursor().copy(f"COPY ({ROWS}) TO STDOUT") as copied:
        return sum(bytes(block).count(b"\n") for block in copied)


READERS: dict[str, Callable[[psycopg.Connection[Any]], int]] = {
    "text": lambda db: by_libpq(db, 0),
    "binary": lambda db: by_libpq(db, 1),
    "COPY": by_copy,
}


def streams(servers: list[Server], read: Callable[[psycopg.Connection[Any]], int], times: int) -> list[float]:
    """The shortest time of each server in milliseconds, taken in turns."""
    found: list[list[float]] = [[] for _ in servers]
    connections = [server.connect() for server in servers]
    for _ in range(times):
        for db, spent in zip(connections, found, strict=True):
            started = time.perf_counter()
            rows = read(db)
            spent.append(time.perf_counter() - started)
            assert rows == STREAMED, rows
    for db in connections:
        db.close()
    return [1000 * min(spent) for spent in found]


# ---- all of it


def line(name: str, unit: str, ours: float, theirs: float, ratio: float, limit: float | None) -> bool:
    over = limit is not None and ratio > limit
    shown = f"{limit:8.1f}" if limit is not None else f"{'':8}"
    print(f"{name:26}{unit:>8}{ours:12,.2f}{theirs:12,.2f}{ratio:8.2f}{shown}{'  OVER' if over else ''}", flush=True)
    return not over


def run(seconds: float = 5.0, times: int = 7) -> bool:
    """Print all; True if all limits hold."""
    holds = True
    with running_postgres(large=True) as theirs, running_proxy(large=True, events=1000, options=SERVE) as ours:
        with theirs.connect() as db:
            (version,) = db.execute("SHOW server_version").fetchone() or ("?",)
        servers = [ours, theirs]
        print(f"\nthe proxy beside PostgreSQL {version}, on loopback; ratio of times: theirs is 1")
        print(f"{'':26}{'':>8}{'proxy':>12}{'PostgreSQL':>12}{'ratio':>8}{'limit':>8}")
        for name, sql in STATEMENTS.items():
            mine, other = latencies(servers, sql, seconds)
            holds = line(f"{name}, 1 client", "ms", mine, other, mine / other, LATENCY) and holds
        for name, sql in STATEMENTS.items():
            mine, other = throughput(servers, sql, seconds)
            line(f"{name}, {CLIENTS} clients", "1/s", mine, other, other / mine, None)
        for name, read in READERS.items():
            mine, other = streams(servers, read, times)
            holds = line(f"{STREAMED:,} rows, {name}", "ms", mine, other, mine / other, STREAM) and holds
    return holds


def main() -> None:
    try:
        holds = run(*(float(text) for text in sys.argv[1:2]))
    except Missing as missing:
        sys.exit(f"the proxy is not measured: it {missing}")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
