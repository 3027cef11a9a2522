"""Many slow statements of one principal: they are his own to wait for, and nobody else's."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_ways import SERVE, World, hostile_world
from proxy_world import OTHER, OTHER_PASSWORD
from raw_client import Raw, query
from worker_world import COUNT, HEAVY, POLICY, failure, given, make, pool_of

from sqlanon.server.pool import Pool

PLAIN = "SELECT count(*) FROM released"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return make(tmp_path)


async def until(test: object, seconds: float = 20.0) -> None:
    assert callable(test)
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not come to be"
        await asyncio.sleep(0.01)


async def stopped(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def heavy(pool: Pool, who: str = "ann") -> asyncio.Task[object]:
    return asyncio.create_task(given(pool, HEAVY, who))


@pytest.mark.full
@pytest.mark.parametrize("size", [2, 3])
def test_the_last_worker_is_for_who_has_none(policy: Path, size: int) -> None:
    async def scenario() -> None:
        async with pool_of(policy, size=size) as pool:
            own = [heavy(pool) for _ in range(size + 2)]
            await asyncio.sleep(0.3)
            assert (pool.busy, pool.waiting) == (size - 1, 3)
            for _ in range(5):
                assert (await given(pool, PLAIN, "bob")).rows == 1
                assert not any(task.done() for task in own)
                assert (pool.busy, pool.waiting) == (size - 1, 3), "what is free again is kept for the others again"
            await stopped(own.pop(0))
            await until(lambda: (pool.busy, pool.waiting) == (size - 1, 2))
            assert (await given(pool, PLAIN, "bob")).rows == 1
            await stopped(*own)
            await until(lambda: pool.busy == 0)
            assert not pool._held, "nobody has a worker any more"

    asyncio.run(scenario())


@pytest.mark.full
def test_who_has_none_is_not_kept_out_by_a_full_queue(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy, size=2, waiting=1) as pool:
            own = [heavy(pool) for _ in range(2)]
            await asyncio.sleep(0.2)
            assert (pool.busy, pool.waiting) == (1, 1)
            assert (await failure(pool, PLAIN)).sqlstate == "53300"
            assert (await given(pool, PLAIN, "bob")).rows == 1
            await stopped(*own)

    asyncio.run(scenario())


@pytest.mark.full
@pytest.mark.parametrize("principals", ["{ann: {}}", None])
def test_where_there_is_nobody_else_or_one_worker_nothing_is_kept_back(tmp_path: Path, principals: str | None) -> None:
    text = POLICY.replace("{ann: {}, bob: {tables: [released]}}", principals or "{ann: {}, bob: {}}")
    policy = make(tmp_path, policy=text)
    size = 2 if principals else 1

    async def scenario() -> None:
        async with pool_of(policy, size=size) as pool:
            own = [heavy(pool) for _ in range(size)]
            await asyncio.sleep(0.3)
            assert (pool.busy, pool.waiting) == (size, 0)
            await stopped(*own)

    asyncio.run(scenario())


@pytest.mark.full
def test_a_worker_that_dies_counts_until_there_is_another(policy: Path) -> None:
    """Or whoever breaks one after the other would have all of them."""

    async def scenario() -> None:
        async with pool_of(policy, size=2) as pool:
            running = heavy(pool)
            await asyncio.sleep(0.2)
            (busy,) = pool._children - set(pool._idle)
            assert busy._process is not None
            busy._process.kill()
            await asyncio.wait([running])
            next_one = heavy(pool)
            await asyncio.sleep(0)
            assert (pool.waiting, len(pool._idle)) == (1, 1)
            assert (await given(pool, PLAIN, "bob")).rows == 1
            await until(lambda: pool.waiting == 0)
            assert len(pool._idle) == 1, "it got the new one, or the old one once the new one was there"
            await stopped(next_one)
            await until(lambda: pool.busy == 0)
            assert not pool._held and (await given(pool, COUNT)).rows == 5

    asyncio.run(scenario())


@pytest.mark.full
def test_waiting_for_ones_own_ends_at_the_timeout(policy: Path) -> None:
    async def scenario() -> None:
        async with pool_of(policy, size=2) as pool:
            own = heavy(pool)
            await asyncio.sleep(0.1)
            assert (await failure(pool, COUNT, timeout=0.3)).sqlstate == "57014"
            assert pool.waiting == 0
            await stopped(own)
            assert (await given(pool, COUNT)).rows == 5

    asyncio.run(scenario())


# ---- through the server

# Allowed, and never done: one for the workers of the catalog, one for those of the data.
SLOW = (
    "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d "
    "WHERE a.attnum + d.attnum = 77",
    "SELECT count(*) FROM people_released a CROSS JOIN people_released b CROSS JOIN people_released c "
    "CROSS JOIN people_released d WHERE a.id + b.id > c.id + d.id",
)
BOUND = 12.0  # seconds, for a machine that does much else; the statements before it run for 30


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    options = SERVE.replace("workers: 1", "workers: 2").replace("statement: 5", "statement: 30")
    assert options != SERVE
    with hostile_world(options) as found:
        yield found


def loop(world: World, sql: str, over: threading.Event) -> None:
    raw = world.raw()
    raw.send(query(sql))
    raw.socket.settimeout(0.5)
    while not over.is_set():
        try:
            if raw.reply().kind == "Z":
                raw.send(query(sql))
        except TimeoutError:
            continue
    raw.socket.close()


def asked(raw: Raw, sql: str) -> float:
    start = time.monotonic()
    assert raw.kinds(query(sql)).replace("N ", "") == "T D C", sql
    return time.monotonic() - start


@pytest.mark.full
def test_slow_statements_in_many_sessions_hold_up_nobody_else(world: World) -> None:
    known = "SELECT count(*) AS n FROM visits"
    over = threading.Event()
    with world.raw(OTHER, OTHER_PASSWORD) as raw:
        asked(raw, known)
        threads = [threading.Thread(target=loop, args=(world, sql, over)) for sql in SLOW for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            time.sleep(1.0)
            took = []
            for number in range(12):
                took += [asked(raw, "SELECT 1"), asked(raw, f"SELECT 1 + {number}"), asked(raw, known)]
                took.append(asked(raw, f"SELECT city FROM cities WHERE population > {number} LIMIT 1"))
                time.sleep(0.5)  # over more than the catalog's own limit, so that its statements end and begin anew
                if sum(took) > BOUND:
                    break
            with world.raw(OTHER, OTHER_PASSWORD) as late:
                took.append(asked(late, known))
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert max(took) < BOUND, took


@pytest.mark.full
def test_the_catalog_has_a_shorter_limit_of_its_own(world: World) -> None:
    with world.raw() as raw:
        start = time.monotonic()
        found = [reply.fields for reply in raw.ask(query(SLOW[0])) if reply.kind == "E"]
        assert [fields["C"] for fields in found] == ["57014"] and 8 < time.monotonic() - start < 18
        raw.ask(query("SET statement_timeout = 500"))
        start = time.monotonic()
        assert [reply.kind for reply in raw.ask(query(SLOW[0]))][-1] == "E" and time.monotonic() - start < 3
