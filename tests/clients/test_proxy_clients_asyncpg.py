"""asyncpg on a real PostgreSQL and on the proxy: everything is prepared, and binary."""

from __future__ import annotations

import asyncio
import io
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from typing import Any

import pytest
from proxy_servers import Server
from proxy_world import NAMES, PEOPLE
from timing import soon

asyncpg = pytest.importorskip("asyncpg", reason="needs the package asyncpg")


def run(server: Server, work: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    """What `work` gives with a connection."""

    async def connected() -> Any:
        connection = await asyncpg.connect(
            host=server.host, port=server.port, user=server.user, password=server.password, database=server.database,
            timeout=20, **options,
        )  # fmt: skip
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(connected())


def test_fetching(server: Server) -> None:
    async def work(db: Any) -> None:
        assert await db.fetchval("SELECT 1") == 1
        rows = await db.fetch("SELECT id, name FROM people_released WHERE id <= $1 ORDER BY id", 3)
        assert [tuple(row) for row in rows] == [(1, "person 1"), (2, "person 2"), (3, "person 3")]
        assert rows[0]["name"] == "person 1"
        assert await db.fetchrow("SELECT id FROM people_released WHERE id < 0") is None
        assert await db.execute("SELECT id FROM people_released") == f"SELECT {PEOPLE}"
        assert await db.execute("SELECT 1; SELECT 2") == "SELECT 1"
        for number, name in enumerate(NAMES):
            assert await db.fetchval("SELECT no FROM names WHERE name = $1", name) == number
            assert await db.fetchval("SELECT $1::text", name) == name
        assert db.get_server_version().major >= 13

    run(server, work)


VALUES: list[tuple[str, Any]] = [
    ("int2", -5), ("int4", 2**31 - 1), ("int8", -(2**63)), ("numeric", Decimal("-123456789.000123")),
    ("numeric", Decimal("0")), ("float4", 1.5), ("float8", 5e-324), ("bool", True), ("text", "Ü ☃"),
    ("varchar", "日本"),
    ("date", date(2024, 2, 29)), ("time", clock(23, 59, 59, 999999)), ("timestamp", datetime(2024, 2, 29, 12, 0, 0, 1)),
    ("timestamptz", datetime(2024, 2, 29, 12, tzinfo=UTC)), ("interval", timedelta(days=3, hours=-4, microseconds=5)),
    ("uuid", uuid.UUID(int=2**127 + 1)), ("bytea", b"\0\xff'\\"), ("json", '{"a": 1}'), ("jsonb", '{"a": 1}'),
    ("int4[]", [1, None, -3]), ("int4[]", [[1, 2], [3, 4]]), ("text[]", ["a", 'b"c,', "", "NULL", None]), 
    ("uuid[]", [uuid.UUID(int=1)]), ("timestamptz[]", [datetime(2024, 2, 29, tzinfo=UTC)]), ("bool[]", []),
]  # fmt: skip


def test_values(server: Server) -> None:
    async def work(db: Any) -> None:
        for kind, value in VALUES:
            found = await db.fetchval(f"SELECT $1::{kind}", value)
            assert (kind, found) == (kind, value) and isinstance(found, type(value))
            assert await db.fetchval(f"SELECT $1::{kind}", None) is None

    run(server, work)


def test_every_kind_of_a_table(server: Server) -> None:
    """In binary, which is all that asyncpg asks for."""
    names = "i2, i4, i8, num, f4, f8, flag, txt, vc, d, t, ts, tz, iv, u, raw, js, ia, ta"
    expected = [
        (-32768, -(2**31), -(2**63), Decimal("-1234567890123456.7891"), -1.5, 2.5e-300, True, "Ünïcödé ☃", "short",
         date(44, 3, 15), clock(0), datetime(1900, 1, 1), datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
         timedelta(days=365 + 60 + 3), uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), b"\0\xff'\\",
         '{"a": [1, null, "ü"]}', [1, None, -3], ["a", 'b"c,', ""]),
        (32767, 2**31 - 1, 2**63 - 1, Decimal("0.0001"), 16777216.0, 1e300, False, "", "exactly twenty chars",
         date(9999, 12, 31), clock(23, 59, 59, 999999), datetime(2038, 1, 19, 3, 14, 8, 1),
         datetime(2024, 2, 29, 10, tzinfo=UTC), timedelta(days=-1, seconds=7384.5), uuid.UUID(int=2**128 - 1), b"",
         "null", [2147483647], ["NULL", "ä"]),
        (None,) * 19,
    ]  # fmt: skip

    async def work(db: Any) -> None:
        assert [tuple(row) for row in await db.fetch(f"SELECT {names} FROM kinds ORDER BY id")] == expected

    run(server, work)


def test_prepared_statements_know_their_types(server: Server) -> None:
    async def work(db: Any) -> None:
        prepared = await db.prepare("SELECT id, name, born FROM people_released WHERE id = $1 AND name <> $2")
        assert [kind.name for kind in prepared.get_parameters()] == ["int4", "text"]
        assert [(each.name, each.type.name) for each in prepared.get_attributes()] == [
            ("id", "int4"), ("name", "text"), ("born", "date"),
        ]  # fmt: skip
        assert prepared.get_query().startswith("SELECT id")
        for number in (1, 2):
            assert (await prepared.fetchrow(number, ""))["name"] == f"person {number}"
        await prepared.fetch(1, "")
        assert prepared.get_statusmsg() == "SELECT 1"
        assert len(await prepared.fetchmany([(1, ""), (2, "")])) == 2
        with pytest.raises(asyncpg.DataError):
            await prepared.fetch("one", "")
        with pytest.raises(asyncpg.InterfaceError):
            await prepared.fetch(1)

    run(server, work)


def test_preparing_costs_nothing(server: Server) -> None:
    async def work(db: Any) -> None:
        start = server.charges()
        prepared = await db.prepare("SELECT ward, count(*) FROM visits WHERE cost > $1 GROUP BY ward ORDER BY ward")
        assert [kind.name for kind in prepared.get_parameters()] == ["float8"]
        assert server.charges() == start
        first = await prepared.fetch(30.25)
        assert server.charges() == start + server.proxy
        assert await prepared.fetch(30.25) == first
        async with db.transaction():
            assert [row async for row in prepared.cursor(30.25, prefetch=1)] == first
        assert server.charges() == start + server.proxy

    run(server, work)


def test_cursors(server: Server) -> None:
    """Portals with row limits."""

    async def work(db: Any) -> None:
        sql = "SELECT id FROM people_released WHERE id > $1 ORDER BY id"
        async with db.transaction():
            seen = [row["id"] async for row in db.cursor(sql, 0, prefetch=7)]
            assert seen == list(range(1, PEOPLE + 1))
            cursor = await db.cursor(sql, 10)
            assert (await cursor.fetchrow())["id"] == 11
            assert [row["id"] for row in await cursor.fetch(3)] == [12, 13, 14]
            assert await cursor.forward(5) == 5
            assert (await cursor.fetchrow())["id"] == 20
            other = await db.cursor("SELECT city FROM cities ORDER BY city")
            assert (await other.fetchrow())["city"] == "Athens"
            assert (await cursor.fetchrow())["id"] == 21
            assert await cursor.forward(PEOPLE) == PEOPLE - 21
            assert await cursor.fetchrow() is None

    run(server, work)


def test_transactions(server: Server) -> None:
    async def work(db: Any) -> None:
        with pytest.raises(asyncpg.UndefinedColumnError):
            async with db.transaction():
                await db.fetch("SELECT nothing")
        async with db.transaction(isolation="repeatable_read", readonly=True):
            assert await db.fetchval("SHOW transaction_isolation") == "repeatable read"
        assert not db.is_in_transaction()
        transaction = db.transaction()
        await transaction.start()
        with pytest.raises(asyncpg.UndefinedTableError):
            await db.fetch("SELECT 1 FROM nowhere")
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            await db.fetch("SELECT 1")
        await transaction.rollback()
        assert await db.fetchval("SELECT 1") == 1

    run(server, work)


def test_types_are_looked_up(server: Server) -> None:
    """asyncpg asks the catalog about types that it does not know, and about arrays."""

    async def work(db: Any) -> None:
        await db.reload_schema_state()
        found = await db.fetchrow("SELECT typname, typlen, typtype FROM pg_catalog.pg_type WHERE oid = $1", 23)
        assert tuple(found) == ("int4", 4, b"b")
        await db.set_type_codec("json", encoder=str, decoder=len, schema="pg_catalog")
        assert await db.fetchval("SELECT '[1, 2]'::json") == 6
        await db.reset_type_codec("json", schema="pg_catalog")
        assert await db.fetchval("SELECT ARRAY['a', 'b']::name[]") == ["a", "b"]
        assert await db.fetchval("SELECT '{1,2}'::oid[]") == [1, 2]

    run(server, work)


def test_copy(server: Server) -> None:
    async def work(db: Any) -> None:
        written = io.BytesIO()
        sql = "SELECT id, name FROM people_released WHERE id <= $1 ORDER BY id"
        assert await db.copy_from_query(sql, 2, output=written, format="csv", header=True) == "COPY 2"
        assert written.getvalue() == b"id,name\n1,person 1\n2,person 2\n"
        binary = io.BytesIO()
        await db.copy_from_query("SELECT id FROM people_released", output=binary, format="binary")
        assert binary.getvalue().startswith(b"PGCOPY\n\xff\r\n\0")
        assert len(binary.getvalue()) == 11 + 8 + PEOPLE * (2 + 4 + 4) + 2
        table = io.BytesIO()
        await db.copy_from_table("cities", columns=["city"], output=table)
        assert table.getvalue().startswith(b"Athens\nBerlin\n")
        with pytest.raises(asyncpg.PostgresError):
            await db.copy_records_to_table("cities", records=[("x", "y", 1)])
        assert await db.fetchval("SELECT 1") == 1

    run(server, work)


def test_a_timeout_cancels(server: Server) -> None:
    async def work(db: Any) -> float:
        started = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await db.fetch(server.slow, timeout=0.3)
        seconds = time.monotonic() - started
        assert await db.fetchval("SELECT 1") == 1
        with pytest.raises(asyncpg.QueryCanceledError):
            await db.execute("SET statement_timeout = 200")
            await db.fetch(server.slow)
        assert await db.fetchval("SELECT 1") == 1
        return seconds

    soon(1.0, lambda: float(run(server, work)))


def test_a_pool(server: Server) -> None:
    """The pool resets a connection with one string of several statements."""

    async def work() -> list[int]:
        async with asyncpg.create_pool(
            host=server.host, port=server.port, user=server.user, password=server.password, database=server.database,
            min_size=2, max_size=4,
        ) as pool:  # fmt: skip
            return list(await asyncio.gather(*(pool.fetchval("SELECT $1::int4", number) for number in range(40))))

    assert asyncio.run(work()) == list(range(40))


def test_settings_at_the_start(server: Server) -> None:
    async def work(db: Any) -> None:
        assert db.get_settings().application_name == "suite"
        assert await db.fetchval("SHOW TimeZone") == ("UTC" if server.proxy else "Asia/Tokyo")
        at = await db.fetchval("SELECT '2024-02-29 00:00:00+09'::timestamptz")
        assert at == datetime(2024, 2, 28, 15, tzinfo=UTC)

    run(server, work, server_settings={"application_name": "suite", "TimeZone": "Asia/Tokyo"})


def test_who_is_not_let_in(server: Server) -> None:
    async def attempt(**wrong: str) -> None:
        given = {"user": server.user, "password": server.password, "database": server.database, **wrong}
        await asyncpg.connect(host=server.host, port=server.port, **given)

    with pytest.raises(asyncpg.InvalidPasswordError):
        asyncio.run(attempt(password="wrong"))
    with pytest.raises(asyncpg.InvalidPasswordError):
        asyncio.run(attempt(user="nobody"))
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        asyncio.run(attempt(database="elsewhere"))
