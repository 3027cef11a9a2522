"""A pool of workers over a small database file, for tests of the proxy."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from sqlanon.ledger import Ledger
from sqlanon.server.pool import Pool
from sqlanon.server.work_messages import Ask, Described, Failed, Failure, Summary

POLICY = """
gateway:
  database: world.duckdb
  unit: {table: users, key: user_id}
  tables:
    users: {columns: {age: {low: 0, high: 120}, region: {keys: [R0, R1, R2, R3, R4]}}}
    released: {public: true}
    odd: {public: true}
  rows: 1
  budget: {statement: {epsilon: 1, delta: 1e-6}, principal: {epsilon: 90, delta: 1e-3}}
  principals: {ann: {}, bob: {tables: [released]}}
  answer_time: 0
  timeout: 120
"""
ROWS = 20_000
# Answered by the gateway, and never done.
HEAVY = "SELECT count(*) FROM released a CROSS JOIN released b CROSS JOIN released c WHERE a.id + b.id > c.id"
COUNT = "SELECT region, count(*) AS n FROM users GROUP BY region"


def make(folder: Path, rows: int = ROWS, policy: str = POLICY) -> Path:
    """A database, a ledger and a policy; gives the policy's path."""
    fill(folder / "world.duckdb", rows)
    Ledger.create(folder / "policy.ledger").close()
    (folder / "policy.yml").write_text(policy, encoding="utf-8")
    return folder / "policy.yml"


def fill(path: Path, rows: int) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE users (user_id BIGINT PRIMARY KEY, age INTEGER, region TEXT)")
        connection.execute("INSERT INTO users SELECT i, 20 + i % 50, 'R' || (i % 5) FROM range(1000) t(i)")
        connection.execute(f"CREATE TABLE released AS SELECT i AS id, 'name ' || i AS name FROM range({rows}) t(i)")
        connection.execute(
            "CREATE TABLE odd AS SELECT 1.50::DECIMAL(9, 2) AS price, 'ab'::BLOB AS raw, "
            "[1, NULL, 3]::INTEGER[] AS list, TIME '10:11:12' AS at, INTERVAL 26 HOURS AS long, "
            "'00000000-0000-0000-0000-000000000001'::UUID AS key, "
            "TIMESTAMPTZ '2026-01-02 03:04:05+00' AS moment, '{\"a\": 1}'::JSON AS document"
        )


@dataclass
class Given:
    """An answer with all its bytes."""

    described: Described
    summary: Summary
    data: bytes
    rows: int

    @property
    def cells(self) -> list[list[bytes | None]]:
        """The cells of its DataRow messages."""
        found, place = [], 0
        while place < len(self.data):
            assert self.data[place : place + 1] == b"D"
            end = place + 1 + int.from_bytes(self.data[place + 1 : place + 5], "big")
            count, place = int.from_bytes(self.data[place + 5 : place + 7], "big"), place + 7
            row: list[bytes | None] = []
            for _ in range(count):
                size = int.from_bytes(self.data[place : place + 4], "big", signed=True)
                row.append(None if size < 0 else self.data[place + 4 : place + 4 + size])
                place += 4 + max(0, size)
            assert place == end
            found.append(row)
        return found


async def given(pool: Pool, sql: str, principal: str = "ann", **options: Any) -> Given:
    async with pool.run(Ask(sql, principal, **options)) as running:
        described = await running.described()
        parts, rows = [], 0
        async for chunk in running.chunks():
            parts.append(chunk.data)
            rows += len(chunk.ends)
            assert chunk.ends[-1] == len(chunk.data)
        assert running.summary is not None
        return Given(described, running.summary, b"".join(parts), rows)


async def failure(pool: Pool, sql: str, principal: str = "ann", **options: Any) -> Failure:
    try:
        await given(pool, sql, principal, **options)
    except Failed as error:
        return error.failure
    raise AssertionError("it was answered")


@asynccontextmanager
async def pool_of(policy: Path, **options: Any) -> AsyncIterator[Pool]:
    pool = Pool(policy, **({"size": 1} | options))
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()


def alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def memory_of(pid: int | None = None) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1]) * 4096


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
