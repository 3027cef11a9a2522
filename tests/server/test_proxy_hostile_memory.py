"""Statements about the catalog that ask for all memory there is: their worker ends, and nothing else does."""

from __future__ import annotations

import asyncio
import time

import pytest
from worker_world import alive, failure, given, memory_of

from sqlanon.pgcatalog import Metadata, PgColumn, RoleInfo, TableInfo
from sqlanon.pgwire import types
from sqlanon.server.pool import Pool
from sqlanon.server.serve import CATALOG_MEMORY

COLUMNS = tuple(PgColumn(f"column{place}", types.INT4) for place in range(20))
TABLES = tuple(TableInfo(f"table{number}", COLUMNS) for number in range(20))
METADATA = Metadata("warehouse", TABLES, (RoleInfo("ann"), RoleInfo("bob")))
TIMEOUT = 5.0
BOMBS = (
    "SELECT string_agg(a.attname || b.attname || c.attname, '') FROM pg_attribute a, pg_attribute b, pg_attribute c",
    "SELECT array_agg(a.attname) FROM pg_attribute a, pg_attribute b, pg_attribute c",
    "SELECT count(DISTINCT a.attname || b.attname || c.attname || d.attname) "
    "FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d",
    "SELECT a.attname, b.attname FROM pg_attribute a, pg_attribute b, pg_attribute c ORDER BY 1, 2",
    "SELECT count(*) FROM generate_series(1, 100000000000)",
    "WITH RECURSIVE r AS (SELECT 'x' AS x UNION ALL SELECT x || x FROM r) SELECT length(x) FROM r",
)


@pytest.mark.full
def test_bombs_end_in_time_and_others_are_answered() -> None:
    async def scenario() -> None:
        pool = Pool(None, kind="catalog", size=2, memory=CATALOG_MEMORY, metadata=METADATA)
        await pool.start()
        try:
            before = {pid: memory_of(pid) for pid in pool.pids}
            for sql in BOMBS:
                begun = time.monotonic()
                task = asyncio.create_task(_ended(pool, sql))
                most = 0
                while not task.done():
                    await asyncio.sleep(0.05)
                    most = max([most, *(memory_of(pid) for pid in pool.pids if alive(pid))])
                assert await task, sql
                assert time.monotonic() - begun < TIMEOUT + 10, sql  # until the machine has time for it
                assert most < max(before.values()) + CATALOG_MEMORY + 2**26, sql
                # The other worker is free for others, whatever became of this one.
                assert (await given(pool, "SELECT 1 + 1", "bob", timeout=60)).cells == [[b"2"]]
            assert pool.alive
        finally:
            pids = pool.pids
            await pool.close()
        assert not any(map(alive, pids))

    asyncio.run(scenario())


async def _ended(pool: Pool, sql: str) -> bool:
    """Whether its time or its memory was over; it is allowed, and not answered."""
    found = await failure(pool, sql, timeout=TIMEOUT)
    return found.sqlstate in ("57014", "53200", "54000", "58000")


@pytest.mark.full
@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT count(*) FROM pg_class"])
def test_the_pool_answers_what_is_no_bomb(sql: str) -> None:
    async def scenario() -> None:
        pool = Pool(None, kind="catalog", size=2, memory=CATALOG_MEMORY, metadata=METADATA)
        await pool.start()
        try:
            assert (await given(pool, sql, timeout=60)).rows == 1
        finally:
            await pool.close()

    asyncio.run(scenario())
