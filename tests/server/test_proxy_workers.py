"""Workers and their pool: what they answer, how they are broken off, and that nothing of them is left behind."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import TESTS
from timing import TRIES, soon
from worker_world import COUNT, HEAVY, POLICY, ROWS, alive, descriptors, failure, fill, given, make, memory_of, pool_of

from sqlanon.ledger import Ledger
from sqlanon.pgwire import types
from sqlanon.server import worker_process as child_module
from sqlanon.server.pool import Pool
from sqlanon.server.work_messages import DIED, Ask, CopyOptions, Failed, Summary


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return make(tmp_path)


@pytest.fixture
def bombs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool whose workers run anything on their engine."""
    monkeypatch.setattr(child_module, "MODULE", "bomb_worker")
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    yield Pool(None, size=1, memory=400 * 2**20)


def events(policy: Path) -> list[Any]:
    ledger = Ledger.open(policy.with_name("policy.ledger"))
    try:
        return ledger.history()
    finally:
        ledger.close()


async def until(test: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not come to be"
        await asyncio.sleep(0.01)


# ---- answers


def test_answers_of_each_kind(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            first = await given(pool, COUNT)
            assert [column.type for column in first.described.columns] == [types.TEXT, types.INT8]
            assert [row[0] for row in first.cells] == [b"R0", b"R1", b"R2", b"R3", b"R4"]
            assert (first.summary.kind, first.summary.cached, first.summary.rows) == ("dp", False, 5)
            assert first.summary.epsilon == pytest.approx(1) and first.summary.left_epsilon == pytest.approx(89)
            assert (first.summary.tables, first.summary.columns) == (("users",), ("users.region",))
            again = await given(pool, COUNT)
            assert again.data == first.data and again.summary.cached and again.summary.epsilon == 0

            plain = await given(pool, "SELECT name, id FROM released WHERE id < $1 ORDER BY id DESC", parameters=("3",))
            assert plain.cells == [[b"name 2", b"2"], [b"name 1", b"1"], [b"name 0", b"0"]]
            assert (plain.summary.kind, plain.summary.rows) == ("plain", 3)
            assert "3" not in plain.summary.shape and "WHERE id < ?" in plain.summary.shape

            told = await given(pool, "EXPLAIN " + COUNT)
            assert told.summary.kind == "explain" and told.described.columns[0].name == "QUERY PLAN"
            dry = await given(pool, COUNT, dry_run=True)
            assert dry.summary.kind == "synthetic" and dry.rows == 5 and dry.summary.epsilon == 0
            empty = await given(pool, "SELECT id FROM released WHERE id < 0")
            assert (empty.rows, empty.data) == (0, b"")
        assert [event.kind for event in events(policy)] == ["charge", "answered"]

    asyncio.run(scenario())


@pytest.mark.full
def test_values_that_are_not_computed_with_come_as_they_are(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            found = await given(pool, "SELECT price, raw, list, at, long, key, moment, document FROM odd")
            names = [column.type.name for column in found.described.columns]
            assert names == ["numeric", "bytea", "_int4", "time", "interval", "uuid", "timestamptz", "json"]
            assert found.cells == [
                [
                    b"1.50", b"\\x6162", b"{1,NULL,3}", b"10:11:12", b"26:00:00",
                    b"00000000-0000-0000-0000-000000000001", b"2026-01-02 03:04:05+00", b'{"a": 1}',
                ]
            ]  # fmt: skip
            binary = await given(pool, "SELECT price, raw, key FROM odd", formats=(1,))
            price, raw, key = binary.cells[0]
            assert types.decode(types.NUMERIC, 1, price) == 1.5 and raw == b"ab" and key == bytes(15) + b"\1"
            copied = await given(pool, "SELECT price, at FROM odd", copy=CopyOptions("csv"))
            assert copied.data == b"d" + (4 + 14).to_bytes(4, "big") + b"1.50,10:11:12\n"

    asyncio.run(scenario())


def test_noisy_numbers_come_as_the_numeric_that_was_asked_for(policy: Path) -> None:
    """Of a declared size, of any, and in both formats."""
    cast = "SELECT count(*)::numeric(12,2) AS n, avg(age)::numeric(5) AS a FROM users"
    summed = "SELECT sum(n) FROM (SELECT region, count(*)::numeric(12,2) AS n FROM users GROUP BY region) t"

    async def scenario() -> None:
        async with pool_of(policy) as pool:
            found = await given(pool, cast)
            assert [column.type for column in found.described.columns] == [types.NUMERIC, types.NUMERIC]
            assert re.fullmatch(rb"\d+\.00", found.cells[0][0]) and re.fullmatch(rb"\d+", found.cells[0][1])
            binary = await given(pool, cast, formats=(1,))
            assert types.decode(types.NUMERIC, 1, binary.cells[0][0]) == Decimal(found.cells[0][0].decode())
            whole = await given(pool, summed)
            assert [column.type for column in whole.described.columns] == [types.NUMERIC]
            assert re.fullmatch(rb"\d+\.00", whole.cells[0][0])

    asyncio.run(scenario())


@pytest.mark.full
def test_a_whole_table_in_order(tmp_path: Path) -> None:
    rows = 200_000
    policy = make(tmp_path, rows)

    async def scenario() -> None:
        async with pool_of(policy) as pool:
            found = await given(pool, "SELECT id, name FROM released ORDER BY id")
            assert found.rows == found.summary.rows == rows
            cells = found.cells
            assert all(row == [b"%d" % place, b"name %d" % place] for place, row in enumerate(cells))

    asyncio.run(scenario())


@pytest.mark.full
def test_parameters_have_types_before_they_have_values(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            before, spent = events(policy), (await given(pool, "SELECT count(*) FROM released")).cells
            ask = Ask("SELECT region, avg(age) FROM users WHERE age > $1 AND region <> $2 GROUP BY 1 LIMIT $3", "ann")
            described = await pool.describe(ask)
            assert described.parameters == (types.INT8.oid, types.TEXT.oid, types.INT8.oid)
            assert [column.type.name for column in described.columns] == ["text", "float8"]
            declared = await pool.describe(Ask(ask.sql, "ann", types=(types.INT4.oid, 0, types.INT2.oid)))
            assert declared.parameters == (types.INT4.oid, types.TEXT.oid, types.INT2.oid)
            assert events(policy) == before and spent == [[b"20000"]]
            found = await given(pool, ask.sql, parameters=("30", "R9", "2"))
            assert found.rows == 2
            wrong = await failure(pool, ask.sql, parameters=("x", "R9", "2"))
            assert (wrong.sqlstate, wrong.message) == ("22P02", "invalid input syntax for type int8")
            assert (await failure(pool, ask.sql, parameters=("30",))).sqlstate == "08P01"
            nothing = await given(pool, "SELECT id FROM released WHERE id = $1", parameters=(None,))
            assert nothing.rows == 0

    asyncio.run(scenario())


def test_refusals_say_what_the_gateway_says(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            told = await failure(pool, "SELECT nope FROM users")
            assert (told.sqlstate, told.message, told.position) == ("42703", 'column "nope" does not exist', 8)
            assert (await failure(pool, "SELECT * FROM users")).sqlstate == "42501"
            assert (await failure(pool, "SELECT count(*) FROM users", "bob")).sqlstate == "42P01"
            assert (await failure(pool, COUNT, "eve")).sqlstate == "28000"
            assert (await failure(pool, "COPY users TO 'x'")).sqlstate == "0A000"
            with pytest.raises(Failed) as error:
                await pool.describe(Ask("SELECT $1::nonsense FROM released", "ann"))
            assert error.value.sqlstate != "XX000"

    asyncio.run(scenario())


# ---- breaking off


@pytest.mark.full
@pytest.mark.parametrize("moment", [0.0, 0.3])
def test_cancel_is_quick_and_the_worker_goes_on(policy: Path, moment: float) -> None:
    async def scenario() -> float:
        """Ten times what the cancel took, or what it took until the worker answered the next: 1 for both."""
        async with pool_of(policy) as pool:
            await given(pool, COUNT)
            (pid,) = pool.pids
            task = asyncio.create_task(given(pool, HEAVY))
            await asyncio.sleep(moment)
            start = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            cancelled = time.monotonic() - start
            assert (await given(pool, COUNT)).summary.cached
            again = time.monotonic() - start
            killed = pool.pids != (pid,)  # it need not have been
            return 10.0 if killed else max(10 * cancelled, again)

    soon(1.0, lambda: asyncio.run(scenario()))


@pytest.mark.full
def test_the_statement_timeout(policy: Path) -> None:
    async def one() -> float:
        async with pool_of(policy) as pool:
            start = time.monotonic()
            late = await failure(pool, HEAVY, timeout=0.3)
            assert (late.sqlstate, late.message) == ("57014", "canceling statement due to statement timeout")
            return time.monotonic() - start

    async def scenario() -> None:
        async with pool_of(policy) as pool:
            late = await failure(pool, HEAVY, timeout=0.3)
            assert (await given(pool, COUNT)).rows == 5
            # Also of who waits for a worker, and of who does not read on.
            task = asyncio.create_task(given(pool, HEAVY))
            await asyncio.sleep(0.1)
            assert (await failure(pool, COUNT, timeout=0.2)).message == late.message
            task.cancel()
            sql = "SELECT a.id, b.name FROM released a CROSS JOIN released b WHERE b.id < 20"
            async with pool.run(Ask(sql, "ann", timeout=5)) as slow:
                with pytest.raises(Failed, match="timeout"):
                    async for _ in slow.chunks():
                        await asyncio.sleep(6)
            assert (await given(pool, COUNT)).rows == 5

    soon(0.5, lambda: asyncio.run(one()))
    asyncio.run(scenario())


@pytest.mark.full
def test_leaving_early_frees_the_worker(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            pids = pool.pids
            for _ in range(20):
                sql = "SELECT a.id, b.name FROM released a CROSS JOIN released b WHERE b.id < 20"
                async with pool.run(Ask(sql, "ann", timeout=60)) as running:
                    async for chunk in running.chunks():
                        assert len(chunk.data) > 1000
                        break
            assert (await given(pool, COUNT)).rows == 5 and pool.pids == pids

    asyncio.run(scenario())


@pytest.mark.full
def test_a_slow_reader_holds_little(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            sql = "SELECT a.id, a.name, b.name AS other FROM released a CROSS JOIN released b WHERE b.id < 100"
            async with pool.run(Ask(sql, "ann", timeout=60)) as running:
                seen, sizes = 0, []
                async for chunk in running.chunks():
                    seen += len(chunk.data)
                    sizes.append(len(chunk.data))
                    if len(sizes) == 3:
                        here, there = memory_of(), memory_of(pool.pids[0])
                        await asyncio.sleep(1)
                        assert memory_of() - here < 10 * 2**20
                        assert memory_of(pool.pids[0]) - there < 300 * 2**20
                assert seen > 60 * 2**20 and max(sizes) < 8 * 2**20

    asyncio.run(scenario())


# ---- workers that die


@pytest.mark.full
def test_a_worker_that_is_killed_is_replaced(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            for busy in (False, True):
                (pid,) = pool.pids
                task = asyncio.create_task(given(pool, HEAVY)) if busy else None
                await asyncio.sleep(0.2)
                os.kill(pid, signal.SIGKILL)
                await until(lambda pid=pid, busy=busy: busy or pid not in pool.pids)
                if task is not None:
                    with pytest.raises(Failed) as error:
                        await task
                    assert error.value.failure == DIED
                assert (await given(pool, COUNT)).rows == 5
                assert pid not in pool.pids and not alive(pid)

    asyncio.run(scenario())


@pytest.mark.full
def test_one_that_does_not_stop_is_killed(bombs: Pool) -> None:
    async def scenario() -> None:
        await bombs.start()
        try:
            (pid,) = bombs.pids
            task = asyncio.create_task(given(bombs, "python all(True for _ in iter(int, 1))"))
            await asyncio.sleep(0.2)
            task.cancel()
            await until(lambda: not alive(pid), 10)
            assert (await given(bombs, "SELECT 1")).cells == [[b"1"]]
        finally:
            await bombs.close()

    asyncio.run(scenario())


BOMBS = [
    "SELECT len(range(1000000000))",
    "SELECT length(repeat('x', 3000000000))",
    "SELECT length(repeat(repeat('x', 1000000), 1000))",
    "SELECT levenshtein(repeat('ab', 200000), repeat('ba', 200000))",
    "SELECT list_sort(range(300000000))[1]",
    "SELECT count(DISTINCT a.range || b.range) FROM range(100000) a, range(100000) b",
    "SELECT max(x) FROM (SELECT string_agg(a.range::VARCHAR) AS x FROM range(100000) a, range(10000) b)",
    "python 'x' * 10**10",
    "python __import__('os').abort()",
    "python __import__('ctypes').string_at(0)",
    "python [0] * 10**9",
    "python __import__('duckdb').connect().execute('SELECT len(range(1000000000))').fetchall()",
]


@pytest.mark.full
@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_end_in_time_and_the_pool_goes_on(bombs: Pool, bomb: str) -> None:
    async def scenario() -> None:
        await bombs.start()
        try:
            start = time.monotonic()
            try:
                await given(bombs, bomb, timeout=3)
            except Failed as error:
                assert error.sqlstate in ("57014", "53200", "58000", "XX000"), error
                assert "Error" not in error.message, "an engine's own words"
            assert time.monotonic() - start < 5
            assert (await given(bombs, "SELECT 1", timeout=20)).cells == [[b"1"]]
        finally:
            await bombs.close()

    asyncio.run(scenario())


def test_the_hardened_engine_reads_and_writes_nothing_else(bombs: Pool, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")

    async def scenario() -> None:
        await bombs.start()
        try:
            for sql in (
                f"SELECT * FROM read_csv('{file}')",
                f"SELECT * FROM '{file}'",
                f"SELECT content FROM read_text('{file}')",
                f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
                f"ATTACH '{tmp_path / 'other.duckdb'}'",
                "INSTALL httpfs",
                "LOAD httpfs",
                "SET enable_external_access = true",
                "SET memory_limit = '99GB'",
                "SET lock_configuration = false",
                "SELECT * FROM opening",  # a variable of the Python around it
            ):
                assert (await failure(bombs, sql)).sqlstate == "XX000", sql
            assert not (tmp_path / "out.csv").exists() and not (tmp_path / "other.duckdb").exists()
        finally:
            await bombs.close()

    asyncio.run(scenario())


def test_a_worker_has_no_socket_of_a_client(policy: Path) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
            async with pool_of(policy) as pool:
                (pid,) = pool.pids
                opened = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
                assert sum(name.startswith("socket:") for name in opened) == 1
                limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
                assert any(line.startswith("Max core file size") and line.split()[4] == "0" for line in limits)
                assert any(line.startswith("Max address space") and "unlimited" not in line for line in limits)
                os.kill(pid, signal.SIGINT)
                await asyncio.sleep(0.1)
                assert (await given(pool, COUNT)).rows == 5 and pool.pids == (pid,)

    asyncio.run(scenario())


PARENT = """
import asyncio, sys
sys.path[:0] = {paths!r}
from worker_world import HEAVY, given, pool_of
from pathlib import Path
async def main():
    async with pool_of(Path(sys.argv[1]), size=2) as pool:
        asyncio.create_task(given(pool, HEAVY))
        await asyncio.sleep(0.3)
        print(*pool.pids, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.full
def test_no_worker_outlives_its_parent(policy: Path) -> None:
    code = PARENT.format(paths=[str(TESTS), str(TESTS.parent)])
    with subprocess.Popen([sys.executable, "-c", code, str(policy)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2 and all(map(alive, pids))
        parent.kill()
        end = time.monotonic() + 3
        while any(map(alive, pids)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not any(map(alive, pids))


# ---- the pool


@pytest.mark.full
def test_a_full_queue_and_who_is_next(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy, waiting=4) as pool:
            running = asyncio.create_task(given(pool, HEAVY))
            await asyncio.sleep(0.1)
            order: list[str] = []

            async def ask(who: str) -> None:
                await given(pool, "SELECT count(*) FROM released", who)
                order.append(who)

            tasks = [asyncio.create_task(ask(who)) for who in ("ann", "ann", "bob", "bob")]
            await asyncio.sleep(0)
            told = await failure(pool, COUNT, "ann")
            assert (told.sqlstate, told.message) == ("53300", "too many statements are waiting")
            running.cancel()
            await asyncio.gather(*tasks)
            assert order == ["ann", "bob", "ann", "bob"] and pool.waiting == 0

    asyncio.run(scenario())


@pytest.mark.full
def test_one_principal_cannot_fill_the_queue(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy, waiting=4) as pool:
            running = asyncio.create_task(given(pool, HEAVY))
            await asyncio.sleep(0.1)
            tasks = [asyncio.create_task(given(pool, COUNT)) for _ in range(3)]
            await asyncio.sleep(0.1)
            assert [task.done() for task in tasks] == [False, False, True]
            other = asyncio.create_task(given(pool, "SELECT count(*) FROM released", "bob"))
            running.cancel()
            assert (await other).rows == 1
            assert isinstance(tasks[2].exception(), Failed)
            await asyncio.gather(*tasks[:2])

    asyncio.run(scenario())


@pytest.mark.full
def test_another_policy_is_taken_over_as_a_whole_or_not_at_all(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy, size=2) as pool:
            first, version = set(pool.pids), pool.version
            running = asyncio.create_task(given(pool, HEAVY, "bob", timeout=100))
            await asyncio.sleep(0.1)
            policy.write_text(POLICY.replace("world.duckdb", "gone.duckdb"), encoding="utf-8")
            with pytest.raises(Failed, match="there is no database"):
                await pool.replace(policy)
            policy.write_text("gateway: {}", encoding="utf-8")
            with pytest.raises(Exception, match=r"policy\.yml"):
                await pool.replace(policy)
            assert pool.version == version and set(pool.pids) == first
            assert (await given(pool, COUNT)).rows == 5
            policy.write_text(POLICY.replace("odd: {public: true}", ""), encoding="utf-8")
            assert (await given(pool, "SELECT price FROM odd")).rows == 1, "the file is read when it is told to be"
            await pool.replace(policy)
            assert pool.version == version + 1
            assert (await failure(pool, "SELECT price FROM odd")).sqlstate == "42P01"
            assert not running.done(), "what runs goes on"
            running.cancel()
            await until(lambda: not first & set(pool.pids) and len(pool.pids) == 2)

    asyncio.run(scenario())


@pytest.mark.full
def test_a_new_database_file_is_opened(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            assert (await given(pool, "SELECT count(*) FROM released")).cells == [[str(ROWS).encode()]]
            fill(policy.with_name("next.duckdb"), 7)
            policy.with_name("next.duckdb").replace(policy.with_name("world.duckdb"))
            assert (await given(pool, "SELECT count(*) FROM released")).cells == [[b"7"]]
            policy.with_name("world.duckdb").unlink()
            told = await failure(pool, "SELECT count(*) FROM released", timeout=5)
            assert told.sqlstate in ("57P03", "57014")
            await until(lambda: pool._failures >= 2)
            took = []
            for _ in range(TRIES):
                start = time.monotonic()
                assert (await failure(pool, "SELECT count(*) FROM released", timeout=5)).sqlstate == "57P03"
                took.append(time.monotonic() - start)
            assert min(took) < 0.1, took
            fill(policy.with_name("world.duckdb"), 9)
            await until(lambda: pool.pids and pool._idle)
            assert (await given(pool, "SELECT count(*) FROM released")).cells == [[b"9"]]

    asyncio.run(scenario())


@pytest.mark.full
def test_workers_are_renewed_after_so_many_statements(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy, statements=3) as pool:
            seen = set()
            for _ in range(7):
                await given(pool, "SELECT count(*) FROM odd")
                seen |= set(pool.pids)
            assert len(seen) >= 3

    asyncio.run(scenario())


def test_the_record_is_written_before_the_answer_leaves(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy) as pool:
            for sql in (COUNT, "SELECT * FROM released", "SELECT id FROM released WHERE id < 0"):
                steps: list[str] = []

                async def written(summary: Summary, steps: list[str] = steps) -> None:
                    await asyncio.sleep(0.05)
                    assert summary.tables and summary.shape
                    steps.append("written")

                async with pool.run(Ask(sql, "ann"), written) as running:
                    async for _ in running.chunks():
                        steps.append("chunk")
                    steps.append("end")
                assert steps[0] == "written" and steps.count("written") == 1

            async def full(summary: Summary) -> None:
                raise OSError("the disk is full")

            async with pool.run(Ask(COUNT, "ann"), full) as running:
                with pytest.raises(OSError, match="full"):
                    async for _ in running.chunks():
                        raise AssertionError("a chunk left")
            assert (await given(pool, COUNT)).rows == 5

    asyncio.run(scenario())


@pytest.mark.full
def test_nothing_is_left_behind(policy: Path) -> None:
    async def scenario() -> None:
        draw = random.Random(4)
        async with pool_of(policy, size=2) as pool:
            await asyncio.gather(*(given(pool, COUNT) for _ in range(4)))
            files, pids = descriptors(), set(pool.pids)
            heavy = 0

            async def one(number: int) -> None:
                nonlocal heavy
                sql = draw.choice([COUNT, "SELECT * FROM released", HEAVY, "SELECT nope", "SELECT count(*) FROM users"])
                heavy += sql == HEAVY
                task = asyncio.create_task(given(pool, sql, timeout=draw.choice([0.05, 0.2])))
                if draw.random() < 0.5:
                    await asyncio.sleep(draw.random() * 0.05)
                    task.cancel()
                await asyncio.gather(task, return_exceptions=True)

            for start in range(0, 300, 10):
                await asyncio.gather(*(one(start + number) for number in range(10)))
            await until(lambda: pool.waiting == 0 and pool.busy == 0 and len(pool.pids) == 2 and not pool._tasks)
            assert heavy > 20
            assert descriptors() <= files
            assert all(map(alive, pool.pids))
            gone = pids - set(pool.pids)
            await until(lambda: not any(map(alive, gone)))
        charged = {event.id for event in events(policy) if event.kind == "charge"}
        settled = {event.settles for event in events(policy) if event.kind in ("answered", "failed")}
        # A worker that was killed cannot settle.
        assert len(charged - settled) <= len(gone)

    before = descriptors()
    asyncio.run(scenario())
    assert descriptors() <= before
